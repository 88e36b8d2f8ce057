"""What is wrong with a configuration: findings that name file, line and field, raised all together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: where it is, what was found and what was expected, and perhaps what to do."""

    message: str
    field: str = ""
    file: str = ""
    line: int | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file and self.line is not None else self.file
        text = ": ".join(part for part in (place, self.field, self.message) if part)
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class ConfigError(ValueError):
    """A configuration that cannot be used. `findings` holds every problem, in the order of the file."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = list(findings)
        super().__init__("\n".join(map(str, self.findings)))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands in the user's file: its path there, and its line where known."""

    path: Path = ()
    line: int | None = None


@dataclass(slots=True)
class Places:
    """Where the values of a v1 configuration stand in the file it came from.

    Conversion from older versions and merging of defaults move values, so the path of a value in the
    configuration is not always its path in the file; people are shown the latter.
    """

    file: str = ""
    by_path: dict[Path, Place] = field(default_factory=dict)

    def of(self, path: Path) -> Place:
        """The place of `path`; of its nearest known ancestor when the file does not hold it."""
        for end in range(len(path), 0, -1):
            place = self.by_path.get(path[:end])
            if place is not None:
                return Place(place.path + path[end:], place.line)
        return Place(path)


@dataclass(slots=True)
class Report:
    """Collects findings by their path in the v1 configuration.

    `lost` holds what could not be decoded and stands at its default: what later checks say about it
    would be about the default, not about the file.
    """

    places: Places
    findings: list[Finding] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    lost: set[Path] = field(default_factory=set)

    def add(self, path: Path, message: str, hint: str | None = None) -> None:
        self.add_at(self.places.of(path), message, hint)
        self.paths.append(path)

    def add_at(self, place: Place, message: str, hint: str | None = None) -> None:
        self.findings.append(Finding(message, format_path(place.path), self.places.file, place.line, hint))

    def invalid(self, path: Path, value: object, message: str, hint: str | None = None) -> None:
        """Report a value as Kubernetes' API validation words it."""
        self.add(path, f"Invalid value: {json.dumps(value, default=str)}: {message}", hint)

    def has_below(self, path: Path) -> bool:
        """Whether something at `path` or below it has been reported."""
        return any(other[: len(path)] == path for other in self.paths)

    def check_further(self, check: Callable[[Report], object]) -> None:
        """Run a later check, and keep its findings about what was decoded."""
        later = Report(self.places)
        check(later)
        gone = self.lost | set(self.paths)
        for path, finding in zip(later.paths, later.findings, strict=True):
            if not any(path[:end] in gone for end in range(1, len(path) + 1)):
                self.findings.append(finding)
                self.paths.append(path)

    def raise_if_any(self) -> None:
        if self.findings:
            in_order = sorted(self.findings, key=lambda finding: finding.line or 0)
            raise ConfigError(dict.fromkeys(in_order))


def format_path(path: Path) -> str:
    """The path as people write it: `profiles[0].plugins.score`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def parse_path(text: str) -> Path:
    """The inverse of `format_path`, for paths that plugins give as text."""
    parts: list[str | int] = []
    for piece in text.replace("[", ".[").split("."):
        if piece.startswith("[") and piece.endswith("]") and piece[1:-1].isdigit():
            parts.append(int(piece[1:-1]))
        elif piece:
            parts.append(piece)
    return tuple(parts)


def did_you_mean(misspelled: str, candidates: Iterable[str]) -> str | None:
    """A hint naming the known word nearest to `misspelled`, if one is near."""
    by_lower = {name.lower(): name for name in candidates}
    close = get_close_matches(misspelled.lower(), by_lower, n=1, cutoff=0.6)
    return f'did you mean "{by_lower[close[0]]}"?' if close else None
