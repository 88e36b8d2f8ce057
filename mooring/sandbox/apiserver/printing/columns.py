"""Columns, and the printers that they make up."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from mooring.sandbox.apiserver.kinds.documentation import documentation_of
from mooring.sandbox.apiserver.kinds.types import object_type
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.printing.ages import Ages

Cell = Callable[[Tree, Ages], Any]
_REFERENCE = re.compile(r"(?P<module>\w+_v\d+)\.(?P<type>\w+)\.(?P<member>\w+)")


class Column(NamedTuple):
    """One column: its header, and its cell for an object."""

    name: str
    cell: Cell
    about: str = ""
    """A description, or the member whose description it is: `core_v1.PodSpec.nodeName`."""
    type: str = "string"
    format: str = ""
    priority: int = 0
    """Other than 0: shown with `-o wide` only."""

    @property
    def definition(self) -> Tree:
        """The column as it is described to clients."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self._description,
            "priority": self.priority,
        }

    @property
    def _description(self) -> str:
        reference = _REFERENCE.fullmatch(self.about)
        if reference is None:
            return self.about
        documentation = documentation_of(object_type(reference["module"], reference["type"]))
        return documentation.members.get(reference["member"], "")


class Printer:
    """Makes rows of the objects of one kind."""

    def __init__(self, *columns: Column) -> None:
        self.columns = columns
        self._cells = [column.cell for column in columns]

    @cached_property
    def definitions(self) -> list[Tree]:
        return [column.definition for column in self.columns]

    def cells(self, obj: Tree, ages: Ages) -> list[Any]:
        """Return the row of an object in the stored version."""
        return [cell(obj, ages) for cell in self._cells]

    def conditions(self, obj: Tree) -> list[Tree]:
        """Return the conditions of the row itself, such as that a pod has completed."""
        return []


NAME = Column(
    "Name", lambda obj, ages: obj["metadata"].get("name", ""), "meta_v1.ObjectMeta.name", format="name"
)
AGE = Column("Age", lambda obj, ages: ages.of(obj), "meta_v1.ObjectMeta.creationTimestamp")
DEFAULT = Printer(
    NAME,
    Column(
        "Created At",
        lambda obj, ages: dig(obj, "metadata", "creationTimestamp") or "",
        "meta_v1.ObjectMeta.creationTimestamp",
        type="date",
    ),
)
"""For kinds without columns of their own; clients format the time."""
