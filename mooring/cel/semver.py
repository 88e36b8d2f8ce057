"""Semantic versions as CEL values, parsed as strictly as Kubernetes parses them."""

from __future__ import annotations

from typing import Any

from mooring.cel.cel_errors import CelError, no_such_overload
from mooring.cel.values import Extension

_DIGITS = frozenset("0123456789")
_ALPHANUMERIC = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")


class Semver(Extension):
    """A version; builds do not count in comparisons."""

    __slots__ = ("key", "numbers")
    type_name = "kubernetes.Semver"
    native_name = "Semver"

    def __init__(self, numbers: tuple[int, int, int], pre: list[str]) -> None:
        self.numbers = numbers
        # A release comes after its prereleases; numeric identifiers come before others.
        parts = tuple((0, int(part), "") if _DIGITS.issuperset(part) else (1, 0, part) for part in pre)
        self.key = (numbers, not pre, parts)

    @classmethod
    def parse(cls, text: str) -> Semver:
        if not text:
            raise CelError("Version string empty")
        parts = text.split(".", 2)
        if len(parts) != 3:
            raise CelError("No Major.Minor.Patch elements found")
        major, minor = _number(parts[0], "major", "Major"), _number(parts[1], "minor", "Minor")
        rest, plus, build = parts[2].partition("+")
        rest, dash, pre = rest.partition("-")
        patch = _number(rest, "patch", "Patch")
        identifiers = pre.split(".") if dash else []
        for identifier in identifiers:
            _check_prerelease(identifier)
        for identifier in build.split(".") if plus else ():
            if not identifier:
                raise CelError("Build meta data is empty")
            if not _ALPHANUMERIC.issuperset(identifier):
                raise CelError(f'Invalid character(s) found in build meta data "{identifier}"')
        return cls((major, minor, patch), identifiers)

    @classmethod
    def normalized(cls, text: str) -> Semver:
        """A version that may have a leading v, leading zeros, or fewer than three numbers."""
        parts = text.removeprefix("v").split(".", 2)
        for i, part in enumerate(parts):
            if len(part) > 1:
                stripped = part.lstrip("0")
                parts[i] = stripped if stripped[:1] in _DIGITS and stripped else "0" + stripped
        if len(parts) < 3:
            if any(mark in parts[-1] for mark in "+-"):
                raise CelError("short version cannot contain PreRelease/Build meta data")
            parts += ["0"] * (3 - len(parts))
        return cls.parse(".".join(parts))

    def equals(self, other: Any) -> bool:
        if type(other) is not Semver:
            raise no_such_overload()
        return self.key == other.key


def _number(text: str, name: str, title: str) -> int:
    if not _DIGITS.issuperset(text):
        raise CelError(f'Invalid character(s) found in {name} number "{text}"')
    if len(text) > 1 and text.startswith("0"):
        raise CelError(f'{title} number must not contain leading zeroes "{text}"')
    if not text:
        raise CelError('strconv.ParseUint: parsing "": invalid syntax')
    value = int(text[:32])
    if value >= 2**64:
        raise CelError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return value


def _check_prerelease(identifier: str) -> None:
    if not identifier:
        raise CelError("Prerelease is empty")
    if _DIGITS.issuperset(identifier):
        if len(identifier) > 1 and identifier.startswith("0"):
            raise CelError(f'Numeric PreRelease version must not contain leading zeroes "{identifier}"')
    elif not _ALPHANUMERIC.issuperset(identifier):
        raise CelError(f'Invalid character(s) found in prerelease "{identifier}"')


def of(value: Any) -> Semver:
    """The value, which must be a version."""
    if type(value) is not Semver:
        raise no_such_overload()
    return value


def semver(text: str, normalize: bool = False) -> Semver:
    return Semver.normalized(text) if normalize else Semver.parse(text)


def is_semver(text: str, normalize: bool = False) -> bool:
    try:
        semver(text, normalize)
    except CelError:
        return False
    return True
