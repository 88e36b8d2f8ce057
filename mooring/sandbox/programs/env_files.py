"""Variables that come from a file of a volume: `KEY='value'` lines, as the kubelet reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_BLANK: Final = " \t"


class EnvFileError(Exception):
    """A file of variables cannot be read."""


def read_key(text: str, key: str) -> str:
    """Return the value of the first assignment to a key; "" if there is none. What follows it is not looked
    at, as in the kubelet. Raises EnvFileError."""
    lines = iter(text.splitlines())
    for raw in lines:
        line = raw.lstrip(_BLANK)
        if not line or line.startswith("#"):
            continue
        name, equals, rest = line.partition("=")
        if not equals or not name or name != name.rstrip(_BLANK):
            raise EnvFileError
        value = _read_value(rest, lines)
        if name == key:
            return value
    return ""


def _read_value(rest: str, lines: Iterator[str]) -> str:
    """Return a value in single quotes, which may have several lines; space before it makes it empty."""
    if rest != rest.lstrip(_BLANK):
        return ""
    if not rest.startswith("'"):
        raise EnvFileError
    value, rest = "", rest[1:]
    while "'" not in rest:
        value += f"{rest}\n"
        following = next(lines, None)
        if following is None:
            raise EnvFileError
        rest = following
    last, _, after = rest.partition("'")
    if after.lstrip(_BLANK)[:1] not in ("", "#"):
        raise EnvFileError
    return value + last
