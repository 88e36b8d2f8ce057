"""PersistentVolumeClaims and PersistentVolumes."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any, Final

from mooring.api.quantity import parse, to_value
from mooring.sandbox.apiserver.errors import forbidden_value, invalid_value, not_supported, required
from mooring.sandbox.apiserver.kinds.facts import choices
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.changes import difference
from mooring.sandbox.apiserver.validation.fields import (
    Causes,
    immutable,
    no_backsteps,
    one_of,
    optional_choice,
    required_text,
    text,
)
from mooring.sandbox.apiserver.validation.labels import label_selector, node_selector
from mooring.sandbox.apiserver.validation.names import dns_label, dns_subdomain
from mooring.sandbox.apiserver.validation.resources import positive_quantity
from mooring.sandbox.apiserver.validation.scheduling import node_selector_as_shown

ACCESS_MODES: Final = choices("core_v1.PersistentVolumeSpec.accessModes")
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_NO_SOURCES: Final = frozenset(
    {
        "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity",
        "persistentVolumeReclaimPolicy", "storageClassName", "volumeAttributesClassName", "volumeMode",
    }
)  # fmt: skip
_CLAIM_IMMUTABLE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims"
)


# ---- claims ---------------------------------------------------------------------------------------


def claim(obj: Tree) -> Causes:
    yield from claim_spec("spec", obj["spec"])


def claim_spec(path: str, spec: Tree) -> Causes:
    modes = spec.get("accessModes") or ()
    if not modes:
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    yield from label_selector(f"{path}.selector", spec.get("selector"))
    yield from _access_modes(f"{path}.accessModes", modes)
    storage, at = dig(spec, "resources", "requests", "storage"), f"{path}.resources[storage]"
    if storage is None:
        yield required(at)
    else:
        yield from positive_quantity(at, storage)
    if spec.get("storageClassName"):
        yield from text(f"{path}.storageClassName", spec["storageClassName"], dns_subdomain)
    yield from _volume_mode(path, spec)
    for name in ("dataSource", "dataSourceRef"):
        if spec.get(name) is not None:
            yield from _data_source(f"{path}.{name}", spec[name])
    if spec.get("volumeAttributesClassName"):
        yield from text(f"{path}.volumeAttributesClassName", spec["volumeAttributesClassName"], dns_subdomain)


def _access_modes(path: str, modes: Sequence[str]) -> Causes:
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield not_supported(path, mode, ACCESS_MODES)
    supported = {mode for mode in modes if mode in ACCESS_MODES}
    if "ReadWriteOncePod" in supported and len(supported) > 1:
        yield forbidden_value(path, "may not use ReadWriteOncePod with other access modes")


def _volume_mode(path: str, spec: Tree) -> Causes:
    modes = choices("core_v1.PersistentVolumeSpec.volumeMode")
    yield from optional_choice(f"{path}.volumeMode", spec.get("volumeMode"), modes)


def _data_source(path: str, source: Tree) -> Causes:
    kind, group = source.get("kind", ""), source.get("apiGroup") or ""
    if not source.get("name"):
        yield required(f"{path}.name")
    if not kind:
        yield required(f"{path}.kind")
    if not group and kind != "PersistentVolumeClaim":
        why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield invalid_value(path, kind, why)
    if group:
        yield from text(f"{path}.apiGroup", group, dns_subdomain)
    if source.get("namespace"):
        yield from text(f"{path}.namespace", source["namespace"], dns_label)


def claim_update(obj: Tree, old: Tree) -> Causes:
    yield from claim(obj)
    new_annotation, old_annotation = _class_annotation(obj), _class_annotation(old)
    spec, before = dict(obj["spec"]), dict(old["spec"])
    if not before.get("volumeName"):  # the controller sets it, once
        before["volumeName"] = spec.get("volumeName")
    class_name = spec.get("storageClassName")
    if new_annotation != old_annotation:
        yield invalid_value(
            f"metadata.annotations.{_CLASS_ANNOTATION}", new_annotation or "", "field is immutable"
        )
    if (
        before.get("storageClassName") is None
        and class_name is not None
        and old_annotation in (None, class_name)
    ):
        spec["storageClassName"] = None  # a claim without a class may get one
    storage = dig(spec, "resources", "requests", "storage")
    was = dig(before, "resources", "requests", "storage")
    if dig(obj, "status", "phase") == "Bound":
        requests = dig(spec, "resources", "requests") or {}
        spec["resources"] = {**spec.get("resources", {}), "requests": {**requests, "storage": was}}
        spec["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
    if _present(spec) != _present(before):
        yield forbidden_value("spec", f"{_CLAIM_IMMUTABLE}\n{difference(_present(before), _present(spec))}")
    held = dig(old, "status", "capacity", "storage") or "0"
    if storage and was and parse(storage) < parse(was) and parse(storage) <= parse(held):
        why = "field can not be less than status.capacity"
        yield forbidden_value("spec.resources.requests.storage", why)
    yield from immutable("volumeMode", obj["spec"].get("volumeMode"), old["spec"].get("volumeMode"))


def _class_annotation(obj: Tree) -> str | None:
    class_name: str | None = (obj["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    return class_name


def _present(spec: Tree) -> Tree:
    return {name: value for name, value in spec.items() if value is not None}


def claim_status(obj: Tree, old: Tree) -> Causes:
    for name, quantity in (dig(obj, "status", "capacity") or {}).items():
        if parse(quantity) < 0:
            why = "must be a valid resource quantity"
            yield invalid_value(f"status.capacity[{name}]", to_value(quantity), why)


# ---- volumes --------------------------------------------------------------------------------------


def volume(obj: Tree) -> Causes:
    spec = obj["spec"]
    modes, capacity = spec.get("accessModes") or (), spec.get("capacity") or {}
    if not modes:
        yield required("spec.accessModes")
    yield from _access_modes("spec.accessModes", modes)
    yield from _capacity(capacity)
    policy = spec.get("persistentVolumeReclaimPolicy") or None
    policies = choices("core_v1.PersistentVolumeSpec.persistentVolumeReclaimPolicy")
    yield from optional_choice("spec.persistentVolumeReclaimPolicy", policy, policies)
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        yield from _node_affinity(affinity)
    yield from _source(spec)
    if spec.get("storageClassName"):
        yield from text("spec.storageClassName", spec["storageClassName"], dns_subdomain)
    yield from _volume_mode("spec", spec)


def _capacity(capacity: Tree) -> Causes:
    if not capacity:
        yield required("spec.capacity")
    if "storage" not in capacity or len(capacity) > 1:
        yield not_supported("spec.capacity", dict(sorted(capacity.items())), ("storage",))
    for name, quantity in capacity.items():
        at = f"spec.capacity[{name}]"
        if parse(quantity) < 0:
            yield invalid_value(at, to_value(quantity), "must be a valid resource quantity")
        yield from positive_quantity(at, quantity)


def _node_affinity(affinity: Tree) -> Causes:
    if affinity.get("required") is None:
        yield required("spec.nodeAffinity.required", "must specify required node constraints")
    else:
        yield from node_selector("spec.nodeAffinity.required", affinity["required"])


def _sources(spec: Tree) -> Tree:
    return {name: value for name, value in spec.items() if name not in _NO_SOURCES and value is not None}


def _source(spec: Tree) -> Causes:
    sources = _sources(spec)
    if not sources:
        yield required("spec", "must specify a volume type")
    for name in list(sources)[1:]:
        yield forbidden_value(f"spec.{name}", "may not specify more than 1 volume type")
    host = sources.get("hostPath")
    if host is not None:
        yield from host_path("spec.hostPath", host)
        recycled = spec.get("persistentVolumeReclaimPolicy") == "Recycle"
        if recycled and posixpath.normpath(host.get("path", "")) == "/":
            why = "may not be 'recycle' for a hostPath mount of '/'"
            yield forbidden_value("spec.persistentVolumeReclaimPolicy", why)
    local = sources.get("local")
    if local is not None:
        if not local.get("path"):
            yield required("spec.local.path")
        else:
            yield from no_backsteps("spec.local.path", local["path"])
        if spec.get("nodeAffinity") is None:
            yield required("spec.nodeAffinity", "Local volume requires node affinity")
    csi = sources.get("csi")
    if csi is not None:
        yield from csi_driver("spec.csi.driver", csi.get("driver", ""))
        if not csi.get("volumeHandle"):
            yield required("spec.csi.volumeHandle")


def csi_driver(path: str, name: str) -> Causes:
    yield from required_text(path, name, lambda text: dns_subdomain(text.lower()))


def host_path(path: str, source: Tree) -> Causes:
    if not source.get("path"):
        yield required(f"{path}.path")
        return
    yield from no_backsteps(f"{path}.path", source["path"])
    kinds = (
        "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
    )  # fmt: skip
    if source.get("type", "") not in kinds:
        yield from one_of(f"{path}.type", source["type"], kinds)


def volume_update(obj: Tree, old: Tree) -> Causes:
    yield from volume(obj)
    new, before = _sources(obj["spec"]), _sources(old["spec"])
    if new != before:
        why = "spec.persistentvolumesource is immutable after creation"
        yield forbidden_value("spec.persistentvolumesource", f"{why}\n{difference(before, new)}")
    yield from immutable("volumeMode", obj["spec"].get("volumeMode"), old["spec"].get("volumeMode"))
    affinity: Any = old["spec"].get("nodeAffinity")
    if affinity is not None and obj["spec"].get("nodeAffinity") != affinity:
        why = "field is immutable, except for updating from beta label to GA"
        now = obj["spec"].get("nodeAffinity")
        shown = now and {"Required": node_selector_as_shown(now.get("required"))}
        yield invalid_value("nodeAffinity", shown, why)
    yield from _attributes_class_update(obj["spec"], old["spec"])


def _attributes_class_update(spec: Tree, old: Tree) -> Causes:
    if old.get("volumeAttributesClassName") is not None and spec.get("volumeAttributesClassName") is None:
        yield forbidden_value(
            "spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden"
        )
