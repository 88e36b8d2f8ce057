"""Decoding of plain objects into structs that reports every problem instead of the first.

msgspec does the conversion of leaves; the walk over structs, lists and mappings is done here, since
msgspec stops at the first error and people want all of them at once.
"""

from __future__ import annotations

import json
import re
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from mooring.config.findings import Path, Report, did_you_mean, parse_path
from mooring.config.tree import plain
from mooring.plugins.args import Duration

S = TypeVar("S", bound=msgspec.Struct)

_EXPECTED = {
    int: "an integer",
    float: "a number",
    str: "a string",
    bool: "true or false",
    bytes: "base64 data",
    Duration: 'a duration such as "15s"',
    list: "a list",
    dict: "a mapping",
}
_MSGSPEC_PLACE = re.compile(r" - at `\$(?P<path>.*)`$")


class _Invalid:
    """Stands for a value that could not be decoded; its problem has been reported."""


_INVALID = _Invalid()


def decode(value: object, cls: type[S], path: Path, report: Report) -> S | None:
    """`value` as a `cls`. Fields that are wrong are reported and left at their defaults.

    None where that cannot be: a field without a default is missing or wrong, or `value` is no mapping.
    """
    struct = _Walker(report).struct(value, cls, path)
    return struct if isinstance(struct, cls) else None


class _Walker:
    def __init__(self, report: Report) -> None:
        self.report = report

    def value(self, value: object, kind: Any, path: Path) -> object:
        """`value` as a `kind`, or `_INVALID` once the problem has been reported."""
        bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        origin, inner = get_origin(bare), get_args(bare)
        if origin in (Union, UnionType):
            return self._union(value, kind, inner, path)
        if origin is list or bare is list:
            return self._list(value, inner[0] if inner else Any, path)
        if origin is dict or bare is dict:
            return self._dict(value, inner[1] if inner else Any, path)
        if isinstance(bare, type) and issubclass(bare, msgspec.Struct) and not bare.__struct_config__.tag:
            return self.struct(value, bare, path)
        return self._leaf(value, kind, bare, path)

    def struct(self, value: object, cls: type[msgspec.Struct], path: Path) -> object:
        if not isinstance(value, dict):
            return self._wrong(value, dict, path)
        fields = {info.encode_name: info for info in msgspec.structs.fields(cls)}
        for name in [name for name in value if name not in fields]:
            self.report.add((*path, name), f'unknown field "{name}"', did_you_mean(name, fields))
        kwargs: dict[str, object] = {}
        complete = True
        for name, info in fields.items():
            raw = value.get(name)
            if raw is None and not (name in value and _accepts_none(info.type)):
                # As in Kubernetes, null is the same as absent.
                if info.required:
                    self.report.add((*path, name), "Required value")
                    complete = False
                continue
            converted = self.value(raw, info.type, (*path, name))
            if converted is not _INVALID:
                kwargs[info.name] = converted
            elif info.required:
                complete = False
        return cls(**kwargs) if complete else self._lost(path)

    def _union(self, value: object, kind: Any, inner: tuple[Any, ...], path: Path) -> object:
        others = [item for item in inner if item is not type(None)]
        if value is None and len(others) < len(inner):
            return None
        if len(others) == 1:
            return self.value(value, others[0], path)
        return self._leaf(value, kind, kind, path)

    def _list(self, value: object, kind: Any, path: Path) -> object:
        if not isinstance(value, list):
            return self._wrong(value, list, path)
        items = [self.value(item, kind, (*path, index)) for index, item in enumerate(value)]
        return self._lost(path) if _INVALID in items else items

    def _dict(self, value: object, kind: Any, path: Path) -> object:
        if not isinstance(value, dict):
            return self._wrong(value, dict, path)
        items = {key: self.value(item, kind, (*path, key)) for key, item in value.items()}
        return self._lost(path) if _INVALID in items.values() else items

    def _leaf(self, value: object, kind: Any, bare: Any, path: Path) -> object:
        try:
            return msgspec.convert(plain(value), kind, dec_hook=_hook)
        except msgspec.ValidationError as error:
            text, place = str(error), _MSGSPEC_PLACE.search(str(error))
            below = parse_path(place["path"]) if place else ()
            message = _MSGSPEC_PLACE.sub("", text).replace("`int`", "an integer")
            if below or (bare in _EXPECTED and _right_type(value, bare)) or bare not in _EXPECTED:
                actual = "" if "found" in message or below else f", found {describe(value)}"
                self.report.add(path + below, message[:1].lower() + message[1:] + actual)
                return self._lost(path)
            return self._wrong(value, bare, path)

    def _lost(self, path: Path) -> object:
        self.report.lost.add(path)
        return _INVALID

    def _wrong(self, value: object, kind: Any, path: Path) -> object:
        self.report.add(path, f"expected {_EXPECTED[kind]}, found {describe(value)}")
        return _INVALID


def _hook(kind: type, value: object) -> object:
    if kind is Duration and isinstance(value, str):
        return Duration.parse(value)
    raise ValueError(f"Expected {_EXPECTED.get(kind, kind.__name__)}, found {describe(value)}")


def _right_type(value: object, kind: Any) -> bool:
    """Whether the value has the expected type, so that what is wrong is the value itself."""
    return type(value) is (str if kind in (Duration, bytes) else kind)


def _accepts_none(kind: Any) -> bool:
    return kind is Any or type(None) in get_args(kind)


def describe(value: object) -> str:
    """A found value for a message: its kind, and the value itself where it is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"number {value}"
    if isinstance(value, str):
        return f"string {json.dumps(value, ensure_ascii=False)}"
    return "a mapping" if isinstance(value, dict) else "a list"
