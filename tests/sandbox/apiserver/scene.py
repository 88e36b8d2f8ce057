"""The objects that tables and kubectl are tried on, as a real API server holds and shows them.

`data/tables.json` is what a real server made of `data/scene.yaml`: for each resource its columns, and for
each object what it stored and the cells it printed. `data/kubectl.json` is what kubectl showed of it.
`python -m tests.sandbox.apiserver.record_tables` makes both anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.objects import encode_tail
from mooring.sandbox.apiserver.store.record import Record, key_of

DATA = Path(__file__).parent / "data"
NAMESPACE = "stage"
Tree = dict[str, Any]

_AGE = re.compile(r"\b(?:(?:\d+[smhdy]){1,2}|<invalid>)(?= |\)|$)", re.MULTILINE)
_SPACES = re.compile(r"  +")


class Row(NamedTuple):
    cells: list[Any]
    object: Tree


class Recorded(NamedTuple):
    """One resource in the version of its path, such as "pods" or "apps/v1/deployments"."""

    path: str
    columns: list[list[Any]]
    rows: list[Row]

    @property
    def group(self) -> str:
        return self.path.split("/")[0] if "/" in self.path else ""

    @property
    def version(self) -> str:
        return self.path.split("/")[1] if "/" in self.path else "v1"

    @property
    def plural(self) -> str:
        return self.path.rpartition("/")[2]


def recorded_tables() -> list[Recorded]:
    tables = json.loads((DATA / "tables.json").read_text())
    return [
        Recorded(path, table["columns"], [Row(*row) for row in table["rows"]])
        for path, table in tables.items()
    ]


class Commands(NamedTuple):
    """What a kubectl showed, by what it was asked."""

    version: str
    shown: dict[str, str]


def recorded_commands() -> Commands:
    return Commands(**json.loads((DATA / "kubectl.json").read_text()))


def without_ages(cell: Any) -> Any:
    """A cell, or a whole page, with the same word for every age: recordings grow old."""
    return _AGE.sub("AGE", cell) if isinstance(cell, str) else cell


def shown(page: str) -> str:
    """What kubectl printed, without what differs from run to run: ages, and the widths of columns."""
    lines = (_SPACES.sub("  ", line).rstrip() for line in without_ages(page).splitlines())
    return "\n".join(lines)


def plant(api: Api, resource: Resource, obj: Tree) -> Record:
    """Store an object as it is, around everything that a write would do to it."""
    metadata = obj["metadata"]
    key = key_of(metadata.get("namespace", ""), metadata["name"])
    fields = resource.strategy.select(obj)
    return api.table(resource).put(key, encode_tail(obj), metadata.get("labels"), fields)


def plant_all(api: Api) -> None:
    for table in recorded_tables():
        resource = api.registry.find(table.group, table.version, table.plural)
        if resource is not None and resource.conversion is None:
            for row in table.rows:
                plant(api, resource, row.object)
