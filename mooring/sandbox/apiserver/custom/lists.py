"""Lists that are sets or maps: items must be unique."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mooring.api.errors import child
from mooring.sandbox.apiserver.custom.schema import Schema
from mooring.sandbox.apiserver.errors import Cause, duplicate, invalid_value
from mooring.sandbox.apiserver.objects import encode_json


def check_lists(value: Any, schema: Schema | None, path: str = "") -> Iterator[Cause]:
    """Return the causes of duplicate items in the lists of a value."""
    if schema is None:
        return
    if isinstance(value, dict):
        for name, member in value.items():
            if isinstance(member, dict | list):
                yield from check_lists(member, schema.member(name), child(path, name))
    elif isinstance(value, list):
        yield from _check_list(value, schema, path)
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                yield from check_lists(item, schema.items, f"{path}[{index}]")


def _check_list(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    if schema.list_type == "map":
        for index, item in enumerate(value):
            if not isinstance(item, dict | None):
                yield invalid_value(
                    f"{path}[{index}]", item, "must be an object for an array of list-type map"
                )
                return
        value = [_key(item or {}, schema) for item in value]
    elif schema.list_type != "set":
        return
    times: dict[object, int] = {}
    for index, item in enumerate(value):
        identity = encode_json(item)
        times[identity] = times.get(identity, 0) + 1
        if times[identity] == 2:  # report each duplicate once
            yield duplicate(f"{path}[{index}]", item)


def _key(item: dict[str, Any], schema: Schema) -> dict[str, Any]:
    return {name: item[name] for name in schema.map_keys if name in item}
