"""ConfigMaps and Secrets."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.errors import forbidden_value, invalid_value, required, too_long
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.fields import Causes, immutable
from mooring.sandbox.apiserver.validation.names import config_key

_LARGEST: Final = 1024 * 1024
_FIXED: Final = "field is immutable when `immutable` is set"
_NEEDED: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_BASIC: Final = ("username", "password")
_ACCOUNT: Final = "kubernetes.io/service-account.name"


def _keys(path: str, data: Tree) -> Causes:
    for key in data:
        for problem in config_key(key):
            yield invalid_value(f"{path}[{key}]", key, problem)


def config_map(obj: Tree) -> Causes:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    yield from _keys("data", data)
    for key in data:
        if key in binary:
            yield invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
    yield from _keys("binaryData", binary)
    size = sum(len(text.encode()) for text in data.values()) + sum(map(_decoded_size, binary.values()))
    if size > _LARGEST:
        yield too_long("", _LARGEST)


def _decoded_size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")


def config_map_update(obj: Tree, old: Tree) -> Causes:
    yield from _still_immutable(obj, old, "data", "binaryData")
    yield from config_map(obj)


def _still_immutable(obj: Tree, old: Tree, *members: str) -> Causes:
    if not old.get("immutable"):
        return
    if not obj.get("immutable"):
        yield forbidden_value("immutable", _FIXED)
    for name in members:
        if (obj.get(name) or {}) != (old.get(name) or {}):
            yield forbidden_value(name, _FIXED)


def secret(obj: Tree) -> Causes:
    data, kind = obj.get("data") or {}, obj.get("type", "")
    yield from _keys("data", data)
    if sum(map(_decoded_size, data.values())) > _LARGEST:
        yield too_long("data", _LARGEST)
    for key in _NEEDED.get(kind, ()):
        if key not in data or (kind.endswith("ssh-auth") and not data[key]):
            yield required(f"data[{key}]")
    if kind == "kubernetes.io/basic-auth" and not any(key in data for key in _BASIC):
        for key in _BASIC:
            yield required(f"data[{key}]")
    account = (obj["metadata"].get("annotations") or {}).get(_ACCOUNT)
    if kind == "kubernetes.io/service-account-token" and not account:
        yield required(f"metadata.annotations[{_ACCOUNT}]")


def secret_update(obj: Tree, old: Tree) -> Causes:
    yield from immutable("type", obj.get("type", ""), old.get("type", ""))
    yield from _still_immutable(obj, old, "data")
    yield from secret(obj)
