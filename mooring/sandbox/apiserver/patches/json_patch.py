"""JSON patches (RFC 6902), with the peculiarities of the implementation that Kubernetes uses.

Paths are those of RFC 6901. Beyond the RFC, negative indices count from the end of a list, `replace` of an
absent member adds it, and `test` for null succeeds if there is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mooring.sandbox.apiserver.fields.go_text import json_name
from mooring.sandbox.apiserver.kinds.codec import FieldValidation
from mooring.sandbox.apiserver.patches.patch_errors import too_many_operations, unprocessable, wrong_type

MOST_OPERATIONS: Final = 10_000
_MOST_COPIED: Final = 3 * 1024 * 1024  # bytes that the copy operations of one patch may add
_MEMBERS: Final = frozenset({"op", "path", "from", "value"})
_INDEX: Final = re.compile(r"[+-]?[0-9]{1,9}")

_canonical = msgspec.json.Encoder(order="deterministic").encode


class DoesNotApplyError(Exception):
    """A patch does not apply; clients that send one get no reason, as from Kubernetes."""


class _MissingError(DoesNotApplyError):
    """What an operation is about is not there."""


class TestFailedError(DoesNotApplyError):
    """A `test` operation found another value."""


def read_json_patch(patch: Any, validation: FieldValidation) -> tuple[list[dict[str, Any]], list[str]]:
    """Parse the operations of a patch, and warnings about it. Raises ApiError."""
    if not isinstance(patch, list):
        raise wrong_type(json_name(patch), "[]handlers.jsonPatchOp", "error decoding patch: ")
    for operation in patch:
        if not isinstance(operation, dict | None):
            raise wrong_type(json_name(operation), "handlers.jsonPatchOp", "error decoding patch: ")
    if len(patch) > MOST_OPERATIONS:
        raise too_many_operations(len(patch), MOST_OPERATIONS)
    operations = [operation or {} for operation in patch]
    if validation is FieldValidation.IGNORE:
        return operations, []
    return operations, [
        f'json patch unknown field "[{index}].{name}"'
        for index, operation in enumerate(operations)
        for name in operation
        if name not in _MEMBERS
    ]


def apply_json_patch(operations: Sequence[dict[str, Any]], tree: Any) -> Any:
    """Apply the patch to the tree, which is changed. Raises 422 if the patch does not apply."""
    try:
        return apply_operations(operations, tree)
    except DoesNotApplyError:
        raise unprocessable() from None


def apply_operations(operations: Sequence[dict[str, Any]], tree: Any) -> Any:
    """Apply the patch to the tree, which is changed. Raises DoesNotApplyError."""
    document, copied = [tree], 0
    for operation in operations:
        name, path = operation.get("op"), operation.get("path")
        if not isinstance(path, str) or not isinstance(name, str):
            raise DoesNotApplyError("Unexpected kind: unknown")
        if name in ("move", "copy"):
            copied += _transfer(document, operation, path)
        elif name in _OPERATIONS:
            try:
                _OPERATIONS[name](document, path, operation.get("value"))
            except _MissingError:
                why = f'{name} operation does not apply: doc is missing path: "{path}": missing value'
                raise DoesNotApplyError(why) from None
        else:
            raise DoesNotApplyError(f"Unexpected kind: {name}")
        if copied > _MOST_COPIED:
            raise DoesNotApplyError(f"Unable to copy more than {_MOST_COPIED} bytes")
    return document[0]


def _find(document: list[Any], path: str) -> tuple[Any, str]:
    """Return the object or list that holds what a path names, and its key there."""
    parts = path.split("/")
    if len(parts) < 2:
        raise _MissingError
    place = document[0]
    for part in parts[1:-1]:
        place = _get(place, _unescaped(part))
        if not isinstance(place, dict | list):
            raise _MissingError
    return place, _unescaped(parts[-1])


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _index(name: str, length: int) -> int:
    """Parse an index into a list of `length` items. Raises if it is out of range."""
    if not _INDEX.fullmatch(name):
        raise _MissingError
    index = int(name)
    index += length if index < 0 else 0
    if not 0 <= index < length:
        raise _MissingError
    return index


def _get(place: Any, name: str) -> Any:
    """Return the value there; None for an absent member."""
    return place.get(name) if isinstance(place, dict) else place[_index(name, len(place))]


def _put(place: Any, name: str, value: Any) -> None:
    if isinstance(place, dict):
        place[name] = value
    elif name == "-":
        place.append(value)
    else:
        place.insert(_index(name, len(place) + 1), value)


def _add(document: list[Any], path: str, value: Any) -> None:
    place, name = _find(document, path)
    _put(place, name, value)


def _drop(document: list[Any], path: str, value: Any = None) -> Any:
    place, name = _find(document, path)
    if isinstance(place, list):
        return place.pop(_index(name, len(place)))
    if name not in place:
        raise _MissingError
    return place.pop(name)


def _replace(document: list[Any], path: str, value: Any) -> None:
    if not path:
        if not isinstance(value, dict | list):
            raise _MissingError
        document[0] = value
        return
    place, name = _find(document, path)
    place[name if isinstance(place, dict) else _index(name, len(place))] = value


def _test(document: list[Any], path: str, value: Any) -> None:
    if path:
        place, name = _find(document, path)
        actual = _get(place, name)
    else:
        actual = document[0]
    if _canonical(actual) != _canonical(value):  # unlike ==, this distinguishes true from 1
        raise TestFailedError(f"testing value {path} failed: test failed")


def _transfer(document: list[Any], operation: dict[str, Any], path: str) -> int:
    """Move or copy a value; return the size of what was copied."""
    source = operation.get("from")
    if not isinstance(source, str):
        raise _MissingError
    if operation["op"] == "move":
        _add(document, path, _drop(document, source))
        return 0
    place, name = _find(document, source)
    encoded = _canonical(_get(place, name))
    _add(document, path, msgspec.json.decode(encoded))
    return len(encoded)


_OPERATIONS: Final = {"add": _add, "remove": _drop, "replace": _replace, "test": _test}
