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
    """One column: what stands above it, and what stands in it for an object."""

    name: str
    cell: Cell
    about: str = ""
    """A description, or the member whose description it is: `core_v1.PodSpec.nodeName`."""
    type: str = "string"
    format: str = ""
    priority: int = 0
    """Other than 0: shown only by those who ask for more (`-o wide`)."""

    @property
    def definition(self) -> Tree:
        """The column as clients are told of it."""
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
    """How objects of one kind become rows."""

    def __init__(self, *columns: Column) -> None:
        self.columns = columns
        self._cells = [column.cell for column in columns]

    @cached_property
    def definitions(self) -> list[Tree]:
        return [column.definition for column in self.columns]

    def cells(self, obj: Tree, ages: Ages) -> list[Any]:
        """A row for an object in the version that is stored."""
        return [cell(obj, ages) for cell in self._cells]

    def conditions(self, obj: Tree) -> list[Tree]:
        """What is to be said of the row itself, such as that the object has done its work."""
        return []


# ---- cells ----------------------------------------------------------------------------------------


def at(*path: str, default: Any = "") -> Cell:
    """The value at a path, or the default where there is none."""

    def cell(obj: Tree, ages: Ages) -> Any:
        found = dig(obj, *path)
        return default if found is None else found

    return cell


def number(*path: str) -> Cell:
    """A number that is 0 where it is absent."""
    return at(*path, default=0)


def count(*path: str) -> Cell:
    """How many there are of something."""
    return lambda obj, ages: len(dig(obj, *path) or ())


def of(text: Callable[[Tree], Any]) -> Cell:
    """What a function of the object alone says."""
    return lambda obj, ages: text(obj)


def name_of(obj: Tree) -> str:
    name: str = obj["metadata"].get("name", "")
    return name


# ---- columns of many kinds ------------------------------------------------------------------------


def named(cell: Cell) -> Column:
    """The column of names, for kinds that show more than the name in it."""
    return Column("Name", cell, "meta_v1.ObjectMeta.name", format="name")


NAME = named(of(name_of))
AGE = Column("Age", lambda obj, ages: ages.of(obj), "meta_v1.ObjectMeta.creationTimestamp")
DEFAULT = Printer(
    NAME,
    Column(
        "Created At",
        at("metadata", "creationTimestamp"),
        "meta_v1.ObjectMeta.creationTimestamp",
        type="date",
    ),
)
"""For kinds without columns of their own; clients format the time."""


def integer(name: str, cell: Cell, about: str) -> Column:
    return Column(name, cell, about, type="integer")


def boolean(name: str, cell: Cell, about: str) -> Column:
    return Column(name, cell, about, type="boolean")


def wide(name: str, cell: Cell, about: str, format: str = "") -> Column:
    """A column for those who ask for more."""
    return Column(name, cell, about, format=format, priority=1)
