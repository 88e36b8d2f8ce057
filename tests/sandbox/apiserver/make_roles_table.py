"""Make mooring/sandbox/apiserver/authorization/roles.txt anew: the roles that a real API server begins with.

KUBEBUILDER_ASSETS=… python -m tests.sandbox.apiserver.make_roles_table
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mooring.sandbox.apiserver.authorization
from tests.live.control_plane import HOW_TO_GET, ControlPlane, assets

TABLE = Path(mooring.sandbox.apiserver.authorization.__file__).parent / "roles.txt"
KINDS = ("clusterroles", "roles", "clusterrolebindings", "rolebindings")
MEMBERS = ("apiGroups", "resources", "nonResourceURLs", "resourceNames", "verbs")


def lines(found: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    for kind in KINDS:
        for one in found[kind]:
            meta = one["metadata"]
            head = [one["kind"], *filter(None, [meta.get("namespace")]), meta["name"]]
            head += [name for name in meta.get("labels", {}) if "aggregate-to" in name]
            yield " ".join(head)
            for rule in one.get("rules") or ():
                yield "  " + " | ".join(",".join(rule.get(member, [])) for member in MEMBERS)
            for subject in one.get("subjects") or ():
                yield f"  {subject['kind']} {subject.get('namespace', '')} {subject['name']}"
            if "roleRef" in one:
                yield f"  = {one['roleRef']['kind']} {one['roleRef']['name']}"


def main() -> None:
    binaries = assets()
    if binaries is None:
        raise SystemExit(HOW_TO_GET)
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(binaries, Path(folder))
        plane.start()
        try:
            ask = ["kubectl", "--kubeconfig", str(plane.kubeconfig()), "get", "-A", "-o", "json"]
            found = {
                kind: json.loads(subprocess.run([*ask, kind], capture_output=True, check=True).stdout)[
                    "items"
                ]
                for kind in KINDS
            }
        finally:
            plane.stop()
    TABLE.write_text("\n".join(lines(found)) + "\n")


if __name__ == "__main__":
    main()
