"""The importers by name, and reading the files that they are given."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from mooring.api.objects import Node
from mooring.config.findings import did_you_mean
from mooring.simulate.arrivals import Arrivals

Imported = list[Node] | Arrivals
Importer = Callable[..., Imported]
Function = TypeVar("Function", bound=Importer)

IMPORTERS: dict[str, Importer] = {}
MODULES = ("openb", "alibaba2020", "azure_packing", "google2019", "gpu_jobs", "jobs", "swf")
"""Where the importers of this package are; those of others register as entry points in `mooring.traces`."""


MOST_PODS_OF_A_JOB = 100_000
LONGEST_LINE = 1_000_000  # characters
LARGEST = 1e18  # number; larger ones overflow when they are converted to other units


class TraceError(ValueError):
    """A trace that cannot be read: the file, the line, what is wrong and what to do."""

    def __init__(self, path: object, problem: str, line: int | None = None, hint: str = "") -> None:
        place = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{place}: {problem}" + (f"\n  hint: {hint}" if hint else ""))


def importer(name: str) -> Callable[[Function], Function]:
    """Register a function from a path, and options by keyword, to nodes or arrivals."""

    def register(function: Function) -> Function:
        IMPORTERS[name] = function
        return function

    return register


def find_importer(name: str) -> Importer | None:
    """The importer of that name, of this package or of an installed one."""
    for module in MODULES:
        import_module(f"mooring.simulate.traces.{module}")
    if name not in IMPORTERS:
        for entry in entry_points(group="mooring.traces", name=name):
            IMPORTERS[name] = entry.load()
    return IMPORTERS.get(name)


def read_trace(format: str, path: str | Path, **options: Any) -> Imported:
    """Read a trace in a format. Raises TraceError."""
    function = find_importer(format)
    if function is None:
        hint = did_you_mean(format, IMPORTERS) or f"the formats are {', '.join(sorted(IMPORTERS))}"
        raise TraceError(path, f'unknown trace format "{format}"', hint=hint)
    return function(Path(path), **options)


def rows(path: Path, *required: str, delimiter: str = ",") -> Iterator[tuple[int, Mapping[str, str]]]:
    """The rows of a CSV file, packed or not, with their lines. Raises TraceError."""
    try:
        with _open(path) as file:
            reader = csv.DictReader(file, delimiter=delimiter, strict=True)
            missing = [name for name in required if name not in (reader.fieldnames or ())]
            if missing:
                columns = ", ".join(reader.fieldnames or ()) or "nothing"
                raise TraceError(path, f"no column {', '.join(missing)}", 1, f"the file has: {columns}")
            for row in reader:
                if None in row or None in row.values():
                    width = len(reader.fieldnames or ())
                    hint = "the file may be truncated: download it again"
                    raise TraceError(path, f"expected {width} columns", reader.line_num, hint)
                yield reader.line_num, row
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "" if isinstance(error, FileNotFoundError) else "the file may be truncated: download it again"
        raise TraceError(path, reason, hint=hint) from None


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file, packed or not, by number. Raises TraceError."""
    try:
        with _open(path) as file:
            for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE), ""), 1):
                if len(line) == LONGEST_LINE:
                    raise TraceError(path, f"more than {LONGEST_LINE:,} characters", number)
                yield number, line
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TraceError(path, reason) from None


def _open(path: Path) -> Any:
    return gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="")


def check_pods(path: Path, line: int, count: float) -> None:
    """Raise TraceError for a job of more pods than a cluster could have."""
    if count > MOST_PODS_OF_A_JOB:
        raise TraceError(path, f"a job of more than {MOST_PODS_OF_A_JOB:,} pods", line)


def number(path: Path, line: int, row: Mapping[str, str], column: str, default: float | None = None) -> float:
    """A number of a row; an empty one is the default. Raises TraceError."""
    text = row.get(column, "").strip()
    if not text and default is not None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < LARGEST:
        expected = f"expected a number that is not negative and less than {LARGEST:g}"
        raise TraceError(path, f'{column}: {expected}, found "{text[:100]}"', line)
    return value
