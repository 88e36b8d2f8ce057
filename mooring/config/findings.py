"""What is wrong with a configuration: findings that name file, line and field, raised all together."""

from __future__ import annotations

import json
from collections.abc import Iterable
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
    known: dict[Path, Place] = field(default_factory=dict)

    def of(self, path: Path) -> Place:
        """The place of `path`; of its nearest known ancestor when the file does not hold it."""
        for end in range(len(path), 0, -1):
            place = self.known.get(path[:end])
            if place is not None:
                return Place(place.path + path[end:], place.line)
        return Place(path)


@dataclass(slots=True)
class Report:
    """Collects findings by their path in the v1 configuration."""

    places: Places
    findings: list[Finding] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)

    def add(self, path: Path, message: str, hint: str | None = None) -> None:
        self.add_at(self.places.of(path), message, hint)
        self.paths.append(path)

    def add_at(self, place: Place, message: str, hint: str | None = None) -> None:
        self.findings.append(Finding(message, format_path(place.path), self.places.file, place.line, hint))

    def invalid(self, path: Path, found: object, message: str, hint: str | None = None) -> None:
        """Report a value as Kubernetes' API validation words it."""
        self.add(path, f"Invalid value: {json.dumps(found, default=str)}: {message}", hint)

    def touches(self, path: Path) -> bool:
        """Whether a finding lies at `path`, above it or below it."""
        return any(path[: len(other)] == other[: len(path)] for other in self.paths)

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


def did_you_mean(found: str, known: Iterable[str]) -> str | None:
    """A hint naming the known word nearest to `found`, if one is near."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(found.lower(), by_lower, n=1, cutoff=0.6)
    return f'did you mean "{by_lower[close[0]]}"?' if close else None
