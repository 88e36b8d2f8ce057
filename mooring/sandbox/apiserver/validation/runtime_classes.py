"""RuntimeClasses."""

from __future__ import annotations

from mooring.sandbox.apiserver.errors import duplicate
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.fields import Causes, immutable, required_text
from mooring.sandbox.apiserver.validation.labels import labels
from mooring.sandbox.apiserver.validation.names import dns_label
from mooring.sandbox.apiserver.validation.resources import resource_requirements
from mooring.sandbox.apiserver.validation.scheduling import tolerations

_LIST_KEYS = ("key", "operator", "value", "effect")


def runtime_class(obj: Tree) -> Causes:
    yield from required_text("handler", obj.get("handler"), dns_label)
    if obj.get("overhead") is not None:
        limits = {"limits": dig(obj, "overhead", "podFixed") or {}}
        yield from resource_requirements("overhead", limits)
    scheduling = obj.get("scheduling")
    if scheduling is None:
        return
    yield from labels("scheduling.nodeSelector", scheduling.get("nodeSelector"))
    items = scheduling.get("tolerations") or []
    yield from tolerations("scheduling.tolerations", items)
    seen = set()
    for index, item in enumerate(items):
        key = tuple(item.get(name, "") for name in _LIST_KEYS)
        if key in seen:
            shown = {name.capitalize(): item.get(name, "") for name in _LIST_KEYS}
            shown["TolerationSeconds"] = item.get("tolerationSeconds")
            yield duplicate(f"scheduling.tolerations[{index}]", shown)
        seen.add(key)


def runtime_class_update(obj: Tree, old: Tree) -> Causes:
    yield from immutable("handler", obj.get("handler", ""), old.get("handler", ""))
