"""Functions on strings: the standard ones, the strings extension (version 2), Kubernetes' regex library."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isinf
from typing import Any

from mooring.api.go_regexp import PatternError, compile_pattern
from mooring.cel.cel_errors import CelError, CostLimitExceededError, no_such_overload
from mooring.cel.overloads import overloads
from mooring.cel.values import Duration, Timestamp, TypeValue, show, type_name

_INTEGER = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_LOWER = {ord(c): ord(c.lower()) for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_UPPER = {after: before for before, after in _LOWER.items()}
_SPACE = "".join(
    c for c in map(chr, range(0x3001)) if c.isspace() and c not in "\x1c\x1d\x1e\x1f"
)  # as in Go


def is_integer(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None


# ---- regular expressions: RE2, whose time is linear, since expressions come from users


def _pattern(text: str) -> Any:
    try:
        return compile_pattern(text)
    except PatternError as error:
        raise CelError(str(error)) from None


def _matches(text: str, pattern: str) -> bool:
    return _pattern(pattern).search(text) is not None


matches = overloads(((str, str), _matches))


def _find(text: str, pattern: str) -> str:
    match = _pattern(pattern).search(text)
    return "" if match is None else str(match.group(0))


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    matches: list[str] = []
    for match in _pattern(pattern).finditer(text):
        if 0 <= limit <= len(matches):
            break
        matches.append(match.group(0))
    return matches


# ---- the strings extension


def _out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(part, offset)


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if not part:
        return len(text) if offset is None else offset
    if offset is None:
        return text.rfind(part)
    if offset < 0:
        raise _out_of_range(offset)
    return -1 if offset >= len(text) else text.rfind(part, 0, offset + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    if len(new) * (len(text) + 1) > 10_000_000:
        raise CostLimitExceededError
    return text.replace(old, new, count if count >= 0 else -1)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    parts = list(text)
    return parts if limit < 0 or len(parts) <= limit else [*parts[: limit - 1], "".join(parts[limit - 1 :])]


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start,) if end is None else (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def _join(parts: list[Any], separator: str = "") -> str:
    if parts and type(parts[0]) is not str:
        raise no_such_overload()
    for part in parts:
        if type(part) is not str:
            raise CelError(f"join: invalid input: {show(part)}")
    return separator.join(parts)


def _quote(text: str) -> str:
    escapes = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
    escapes |= {"\\": "\\\\", '"': '\\"'}
    return '"' + "".join(escapes.get(c, c) for c in text) + '"'


CLAUSE = re.compile(r"%(?:%|(?:\.(\d+))?(.)|$)", re.DOTALL)


def _format(template: str, args: list[Any]) -> str:
    """`"%s has %d".format([name, count])`."""
    used = 0

    def clause(match: re.Match[str]) -> str:
        nonlocal used
        if match.group() == "%%":
            return "%"
        precision, verb = match.groups()
        if verb is None:
            raise CelError("unexpected end of string")
        if verb not in "sdfexXob":
            raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
        if used >= len(args):
            raise CelError(f"index {used} out of range")
        used += 1
        return _formatted(args[used - 1], verb, 6 if precision is None else int(precision[:3]))

    return CLAUSE.sub(clause, template)


EXPECTED_BY_VERB = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
    "durations, and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "X": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
    "b": "only integers and bools can be formatted as binary",
}


def _formatted(value: Any, verb: str, precision: int) -> str:
    if verb == "s":
        return _plain(value)
    number = isinstance(value, int) and type(value) is not bool
    if verb == "d" and number:
        return str(int(value))
    if verb in "fe" and type(value) in (int, float):
        return _fixed(float(value), precision) if verb == "f" else f"{float(value):.{precision}e}"
    if verb in "xX" and type(value) in (str, bytes):
        text = (value.encode() if type(value) is str else value).hex()
        return text if verb == "x" else text.upper()
    if verb in "xXob" and number:
        return f"{int(value):{verb}}"
    if verb == "b" and type(value) is bool:
        return str(int(value))
    raise _wrong_value(value, verb)


def _wrong_value(value: Any, verb: str) -> CelError:
    return CelError(f"error during formatting: {EXPECTED_BY_VERB[verb]}, was given {type_name(value)}")


def _fixed(value: float, precision: int) -> str:
    """In the form of the English locale."""
    if isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:,.{precision}f}"


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_nested, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{_nested(k)}:{_nested(v)}" for k, v in value.items())) + "}"
    if type(value) is bytes:
        return str(value, "utf-8", "replace")
    if type(value) in (Duration, Timestamp):
        from mooring.cel import times

        return times.duration_text(value) if type(value) is Duration else times.timestamp_text(value)
    if type(value) is TypeValue:
        return value.name
    if type(value) in (str, int, float, bool) or value is None or isinstance(value, int):
        return show(value)
    raise _wrong_value(value, "s")


def _nested(value: Any) -> str:
    """A value inside a list or a map, where its type can be seen."""
    if type(value) is str:
        return f'"{value}"'
    if type(value) is float:
        return f"{value:f}"
    if type(value) in (Duration, Timestamp):
        return f'{"duration" if type(value) is Duration else "timestamp"}("{_plain(value)}")'
    return _plain(value)


FUNCTIONS: dict[str, Callable[..., Any]] = {"strings.quote": overloads(((str,), _quote))}

METHODS: dict[str, Callable[..., Any]] = {
    "contains": overloads(((str, str), lambda text, part: part in text)),
    "startsWith": overloads(((str, str), str.startswith)),
    "endsWith": overloads(((str, str), str.endswith)),
    "matches": matches,
    "find": overloads(((str, str), _find)),
    "findAll": overloads(((str, str), _find_all), ((str, str, int), _find_all)),
    "charAt": overloads(((str, int), _char_at)),
    "indexOf": overloads(((str, str), _index_of), ((str, str, int), _index_of)),
    "lastIndexOf": overloads(((str, str), _last_index_of), ((str, str, int), _last_index_of)),
    "lowerAscii": overloads(((str,), lambda text: text.translate(_LOWER))),
    "upperAscii": overloads(((str,), lambda text: text.translate(_UPPER))),
    "replace": overloads(((str, str, str), _replace), ((str, str, str, int), _replace)),
    "split": overloads(((str, str), _split), ((str, str, int), _split)),
    "substring": overloads(((str, int), _substring), ((str, int, int), _substring)),
    "trim": overloads(((str,), lambda text: text.strip(_SPACE))),
    "join": overloads(((list,), _join), ((list, str), _join)),
    "format": overloads(((str, list), _format)),
}
