"""Regenerate kinds/wire.txt: python -m tests.sandbox.apiserver.make_wire_table KUBERNETES_SOURCE.

Clients of Kubernetes may send protobuf, which names fields by number. The numbers stand in the tags of
Kubernetes' Go types and nowhere in lightkube-models, so they are collected here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

TABLE = Path(__file__).parents[3] / "mooring" / "sandbox" / "apiserver" / "kinds" / "wire.txt"
GROUPS = {
    "admissionregistration": "admissionregistration",
    "apps": "apps",
    "authentication": "authentication",
    "authorization": "authorization",
    "autoscaling": "autoscaling",
    "batch": "batch",
    "certificates": "certificates",
    "coordination": "coordination",
    "core": "core",
    "discovery": "discovery",
    "events": "events",
    "flowcontrol": "flowcontrol",
    "networking": "networking",
    "node": "node",
    "policy": "policy",
    "rbac": "rbac",
    "resource": "resource",
    "scheduling": "scheduling",
    "storage": "storage",
}
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([*\[\]\w.]+)\s+`([^`]*)`", re.MULTILINE)
_NUMBER = re.compile(r'protobuf:"[^,]*,(\d+)')
_JSON = re.compile(r'json:"([^"]*)"')


def sources(root: Path) -> Iterator[tuple[str, Path]]:
    """The names of lightkube's modules, and the files with the Go types of each."""
    staging = root / "staging" / "src" / "k8s.io"
    for group in GROUPS:
        for folder in sorted((staging / "api" / group).glob("v[0-9]")):
            yield f"{group}_{folder.name}", folder / "types.go"
    yield "scheduling_v1alpha2", staging / "api" / "scheduling" / "v1alpha2" / "types.go"
    definitions = staging / "apiextensions-apiserver" / "pkg" / "apis" / "apiextensions" / "v1"
    for file in ("types.go", "types_jsonschema.go"):
        yield "apiextensions_v1", definitions / file
    aggregator = staging / "kube-aggregator" / "pkg" / "apis" / "apiregistration" / "v1"
    yield "apiregistration_v1", aggregator / "types.go"
    yield "meta_v1", staging / "apimachinery" / "pkg" / "apis" / "meta" / "v1" / "types.go"


def lines(module: str, source: str) -> Iterator[str]:
    """One line per type: its fields with their numbers.

    `*` marks pointers, whose zero means something, and what else is left out as if it were one; `~` those
    that are written as null; `!` what is written even when it is zero; `#` bytes; `^` a part that JSON writes
    as if its fields were the type's own, with the name of its type.
    """
    for name, body in _STRUCT.findall(source):
        fields = []
        for _, go_type, tags in _FIELD.findall(body):
            number, json = _NUMBER.search(tags), _JSON.search(tags)
            if number is None or json is None or json.group(1) == "-":
                continue
            json_name, *options = json.group(1).split(",")
            if "inline" in options:
                fields.append(f"^{go_type.rpartition('.')[2]}={number.group(1)}")
                continue
            omitted = "omitempty" in options or "omitzero" in options
            pointer = go_type.startswith("*") or "omitzero" in options
            mark = "#" if go_type == "[]byte" else ("*" if omitted else "~") if pointer else ""
            mark = mark or ("" if omitted else "!")
            fields.append(f"{json_name}={number.group(1)}{mark}")
        if fields:
            yield f"{module}.{name} {' '.join(fields)}"


def main() -> None:
    found = [line for module, path in sources(Path(sys.argv[1])) for line in lines(module, path.read_text())]
    TABLE.write_text("\n".join(sorted(found)) + "\n")
    print(f"{TABLE}: {len(found)} types")


if __name__ == "__main__":
    main()
