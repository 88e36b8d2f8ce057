"""Regenerate kinds/facts.txt and data/openapi.txt from the documents of a real API server:

KUBEBUILDER_ASSETS=… python -m tests.sandbox.apiserver.make_openapi_table

The first holds what lightkube-models does not tell: which values a field may have, how large a number may be.
The second is what the tests compare our documents with.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.live.control_plane import ControlPlane, assets
from tests.sandbox.apiserver.openapi_digest import digest

FACTS = Path(__file__).parents[3] / "mooring" / "sandbox" / "apiserver" / "kinds" / "facts.txt"
DIGEST = Path(__file__).parent / "data" / "openapi.txt"


def schemas(plane: ControlPlane) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, entry in json.loads(plane.request("GET", "/openapi/v3"))["paths"].items():
        if path.startswith(("api/", "apis/")):
            document = json.loads(plane.request("GET", entry["serverRelativeURL"]))
            found |= document["components"].get("schemas", {})
    return dict(sorted(found.items()))


def facts(schema: dict[str, Any]) -> Iterator[str]:
    for name, member in sorted(schema.get("properties", {}).items()):
        inner = member.get("items") or member.get("additionalProperties") or member
        if "enum" in inner:
            yield f"{name}={'|'.join(inner['enum'])}"
        elif inner.get("format") in ("int64", "byte"):
            yield f"{name}:{inner['format']}"


def write(path: Path, lines: dict[str, list[str]]) -> None:
    path.write_text("".join("\t".join((name, *parts)) + "\n" for name, parts in lines.items() if parts))


def main() -> None:
    binaries = assets()
    if binaries is None:
        raise SystemExit("set KUBEBUILDER_ASSETS to a directory with etcd and kube-apiserver")
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(binaries, Path(folder))
        try:
            plane.start()
            found = schemas(plane)
        finally:
            plane.stop()
    write(FACTS, {_model(name): list(facts(schema)) for name, schema in found.items()})
    digests = {name: digest(schema) for name, schema in found.items()}
    write(
        DIGEST, {name: [f"{key}: {text}" for key, text in found.items()] for name, found in digests.items()}
    )


def _model(name: str) -> str:
    """The name of a definition's type in lightkube-models: `core_v1.Pod`."""
    *_, group, version, type = name.split(".")
    return f"{group}_{version}.{type}"


if __name__ == "__main__":
    main()
