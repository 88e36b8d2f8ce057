"""The printers of built-in kinds, read from `columns.txt`, which explains its format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from inspect import isfunction
from types import ModuleType
from typing import Any, Final

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.printing import (
    cluster_cells,
    control_cells,
    networking_cells,
    pod_cells,
    shared_cells,
    storage_cells,
    timed_cells,
    workload_cells,
)
from mooring.sandbox.apiserver.printing.ages import Ages
from mooring.sandbox.apiserver.printing.columns import AGE, NAME, Cell, Column, Printer

_Function = Callable[[Any], Any]


def _functions(*modules: ModuleType) -> dict[str, Any]:
    return {
        name: member
        for module in modules
        for name, member in vars(module).items()
        if isfunction(member) and member.__module__ == module.__name__
    }


_FUNCTIONS: Final[dict[str, _Function]] = _functions(
    shared_cells, pod_cells, workload_cells, cluster_cells, storage_cells, networking_cells, control_cells
)
_TIMED: Final[dict[str, Cell]] = _functions(timed_cells)
_USUAL: Final = {"Name": NAME, "Age": AGE}
_CELL: Final = re.compile(
    r"(?:@(?P<function>\w+) ?)?(?P<path>[\w.]*)(?: (?P<operator>\?\?|\|\|) (?P<default>.+))?"
)
_LITERALS: Final[dict[str, Any]] = {"true": True, "false": False, "0": 0}


def read_column(line: str) -> Column:
    """Read one line of `columns.txt`."""
    if line in _USUAL:
        return _USUAL[line]
    head, cell, about, *_ = [*re.split(r" {2,}", line), ""]
    name, _, kind = head.removeprefix("+").partition(":")
    type, _, format = kind.partition("/")
    return Column(name, _read_cell(cell), about, type or "string", format, int(head.startswith("+")))


def _read_cell(text: str) -> Cell:
    match = _CELL.fullmatch(text)
    if match is None:
        raise ValueError(f"columns.txt: invalid cell: {text}")
    path = match["path"].split(".") if match["path"] else []
    default = match["default"]
    if default is not None:
        default = _LITERALS.get(default, default.strip('"'))
    if match["function"]:
        return _computed(_function(match["function"]), path, match["operator"], default)
    return _plain(path, match["operator"] == "||", "" if default is None else default)


def _plain(path: list[str], replace_empty: bool, default: Any) -> Cell:
    def cell(obj: Tree, ages: Ages) -> Any:
        value = dig(obj, *path)
        return default if value is None or (replace_empty and not value) else value

    return cell


def _computed(function: Cell, path: list[str], operator: str | None, default: Any) -> Cell:
    def cell(obj: Tree, ages: Ages) -> Any:
        value = dig(obj, *path)
        if (operator and value is None) or (operator == "||" and not value):
            return default
        return function(value, ages)

    return cell


def _function(name: str) -> Cell:
    if name in _TIMED:
        return _TIMED[name]
    function = _FUNCTIONS[name]
    return lambda value, ages: function(value)


def _read_printers() -> Iterator[tuple[str, Printer]]:
    text = (files("mooring.sandbox.apiserver.printing") / "columns.txt").read_text()
    for section in text.split("\n[")[1:]:
        tables, *lines = section.splitlines()
        columns = [read_column(line) for line in lines if line]
        for table in tables.rstrip("]").split():
            yield table, (pod_cells.PodPrinter if table == "pods" else Printer)(*columns)


PRINTERS: Final = dict(_read_printers())
"""By the name of the table that objects are stored in."""

SCALE: Final = Printer(
    NAME._replace(format=""),
    read_column("Desired:integer  spec.replicas ?? 0  autoscaling_v1.ScaleSpec.replicas"),
    read_column("Available:integer  status.replicas ?? 0  autoscaling_v1.ScaleStatus.replicas"),
    AGE,
)
