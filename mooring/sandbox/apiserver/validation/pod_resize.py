"""Resizing pods: only the cpu and memory of containers may change."""

from __future__ import annotations

from collections.abc import Callable

from mooring.sandbox.apiserver.errors import forbidden_value, invalid_value
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.fields import Causes
from mooring.sandbox.apiserver.validation.pod_rules import pod

_RESIZABLE = ("cpu", "memory")


def pod_resize(obj: Tree, old: Tree, qos_class: Callable[[Tree], str]) -> Causes:
    if "kubernetes.io/config.mirror" in (old["metadata"].get("annotations") or {}):
        yield forbidden_value("", "static pods cannot be resized")
        return
    if dig(old, "spec", "os", "name") == "windows":
        yield forbidden_value("", "windows pods cannot be resized")
        return
    yield from pod(obj)
    before = dig(old, "status", "qosClass") or qos_class(old)
    if before != qos_class(obj):
        reported = dig(obj, "status", "qosClass") or ""
        yield invalid_value("spec", reported, "Pod QOS Class may not change as a result of resizing")
    running = [
        one
        for one in dig(old, "status", "containerStatuses") or ()
        if dig(one, "state", "running") is not None
    ]
    if running and running[0].get("resources") is None:
        yield forbidden_value("spec", "Pod running on node without support for resize")
    moved = list(_order(obj["spec"], old["spec"]))
    yield from moved
    if not moved:
        yield from _resources(obj["spec"], old["spec"])


def _order(spec: Tree, old: Tree) -> Causes:
    for kind in ("containers", "initContainers"):
        now, then = spec.get(kind) or [], old.get(kind) or []
        if len(now) != len(then):
            yield forbidden_value(f"spec.{kind}", f"{kind} may not be added or removed on resize")
            continue
        for index, (container, was) in enumerate(zip(now, then, strict=True)):
            if container.get("name") != was.get("name"):
                why = f"{kind} may not be renamed or reordered on resize"
                yield forbidden_value(f"spec.{kind}[{index}].name", why)


def _resources(spec: Tree, old: Tree) -> Causes:
    if old.get("resources") is not None:
        yield from _pod_level(spec.get("resources"), old["resources"])
    for kind in ("initContainers", "containers"):
        for index, (container, was) in enumerate(zip(spec.get(kind) or (), old.get(kind) or (), strict=True)):
            for name in ("requests", "limits"):
                before, after = dig(was, "resources", name) or {}, dig(container, "resources", name) or {}
                if any(one not in after for one in before):
                    why = f"resource {name} cannot be removed"
                    yield forbidden_value(f"spec.{kind}[{index}].resources.{name}", why)
    for container, was in zip(spec.get("containers") or (), old.get("containers") or (), strict=True):
        if _fixed(container) != _fixed(was):
            yield forbidden_value("spec", "only cpu and memory resources are mutable")
    pairs = zip(spec.get("initContainers") or (), old.get("initContainers") or (), strict=True)
    for index, (container, was) in enumerate(pairs):
        if _fixed(container) != _fixed(was):
            why = "only cpu and memory resources for init or sidecar containers are mutable"
            yield forbidden_value(f"spec.initContainers[{index}]", why)


def _pod_level(new: Tree | None, old: Tree) -> Causes:
    if new is None:
        yield forbidden_value("spec.resources", "pod-level resources cannot be removed")
        return
    for name in ("requests", "limits"):
        if any(one not in (new.get(name) or {}) for one in old.get(name) or {}):
            why = f"pod-level resource {name} cannot be removed"
            yield forbidden_value(f"spec.resources.{name}", why)
    if _fixed({"resources": new}) != _fixed({"resources": old}):
        yield forbidden_value("spec", "only cpu and memory resources are mutable at pod-level")


def _fixed(container: Tree) -> Tree:
    """Return the container without what may be resized."""
    resources = container.get("resources") or {}
    kept = {
        name: {key: value for key, value in (resources.get(name) or {}).items() if key not in _RESIZABLE}
        for name in ("requests", "limits")
    }
    return {**container, "resources": {**resources, **kept}}
