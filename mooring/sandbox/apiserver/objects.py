"""Objects as plain trees, and their conversion from and to stored bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from mooring.api.meta import Tree as Tree
from mooring.sandbox.apiserver.store.record import OPENING, Record
from mooring.sandbox.apiserver.store.table import Table

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()

encode_json = _encoder.encode


def encode_tail(obj: Tree, version: str = "") -> bytes:
    """Encode the part of an object that a record keeps: no kind, no resourceVersion, and an apiVersion only
    if objects of its table are stored in different ones.

    The metadata must have another member than its version; every stored object has a name.
    """
    ordered = {"metadata": None, **obj}
    if "resourceVersion" in obj["metadata"]:
        metadata = ordered["metadata"] = obj["metadata"].copy()
        del metadata["resourceVersion"]
    ordered.pop("kind", None)
    ordered.pop("apiVersion", None)
    if version:
        ordered["apiVersion"] = version
    return _encoder.encode(ordered)[len(OPENING) :]


def decode_record(record: Record, api_version: str, kind: str) -> Tree:
    """Decode a record to a new tree that may be changed."""
    return {"kind": kind, "apiVersion": api_version, **_decoder.decode(record.body)}


def read_all(table: Table, namespace: str = "") -> Iterator[Tree]:
    """Decode all objects of a table, or those of one namespace, in the order of their keys, without kind."""
    for key in table.keys(namespace):
        yield decode_record(table.records[key], "", "")


def dig(tree: Any, *path: str) -> Any:
    """Return the value at a path of members, or None if there is none."""
    for name in path:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(name)
    return tree


def set_or_drop(tree: Tree, name: str, value: Any) -> None:
    """Set a member, or remove it if the value is empty: Kubernetes writes no empty lists and maps."""
    if value:
        tree[name] = value
    else:
        tree.pop(name, None)
