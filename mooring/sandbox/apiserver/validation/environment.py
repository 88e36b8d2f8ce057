"""Environment variables of containers, and their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mooring.sandbox.apiserver.errors import invalid_value, not_found_value, not_supported, required
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.fields import Causes, no_backsteps, required_text, text
from mooring.sandbox.apiserver.validation.names import (
    config_key,
    dns_label,
    dns_subdomain,
    env_name,
    qualified_name,
)

_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELDS: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_VOLUME_FIELDS: Final = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
)  # fmt: skip
_KNOWN_FIELDS: Final = frozenset({*_FIELDS, *_VOLUME_FIELDS, "status.phase", "spec.restartPolicy"})
_RESOURCES: Final = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
)  # fmt: skip


def environment(path: str, variables: Sequence[Tree]) -> Causes:
    for index, variable in enumerate(variables):
        at = f"{path}[{index}]"
        yield from required_text(f"{at}.name", variable.get("name"), env_name)
        source = variable.get("valueFrom")
        if source is not None:
            yield from _value_from(f"{at}.valueFrom", source, variable.get("value", ""))


def volumes_of_files(path: str, variables: Sequence[Tree], volumes: Mapping[str, Tree]) -> Causes:
    """Validate that variables are read from files of emptyDir volumes only."""
    for index, variable in enumerate(variables):
        source = variable.get("valueFrom")
        if source is None or source.get("fileKeyRef") is None:
            continue
        at, name = (
            f"{path}[{index}].valueFrom.fileKeyRef.volumeName",
            source["fileKeyRef"].get("volumeName", ""),
        )
        if name not in volumes:
            yield not_found_value(at, name)
        elif volumes[name].get("emptyDir") is None:
            yield invalid_value(at, name, "referenced volume must be of type emptyDir")


def _value_from(path: str, source: Tree, value: str) -> Causes:
    sources = [name for name in _SOURCES if source.get(name) is not None]
    for name in sources:
        at, reference = f"{path}.{name}", source[name]
        if name == "fieldRef":
            yield from field_selector(at, reference, _FIELDS)
        elif name == "resourceFieldRef":
            yield from resource_field_selector(at, reference)
        elif name == "fileKeyRef":
            yield from _file_key(at, reference)
        else:
            yield from text(f"{at}.name", reference.get("name", ""), dns_subdomain)
            yield from required_text(f"{at}.key", reference.get("key"), config_key)
    if not sources:
        named = ", ".join(f"`{name}`" for name in _SOURCES[:-1])
        yield invalid_value(path, "", f"must specify one of: {named} or `{_SOURCES[-1]}`")
    elif value:
        yield invalid_value(path, "", "may not be specified when `value` is not empty")
    elif len(sources) > 1:
        yield invalid_value(path, "", "may not have more than one field specified at a time")


def _file_key(path: str, reference: Tree) -> Causes:
    yield from required_text(f"{path}.key", reference.get("key"), env_name)
    yield from required_text(f"{path}.volumeName", reference.get("volumeName"), dns_label)
    if not reference.get("path"):
        yield required(f"{path}.path")
    else:
        yield from no_backsteps(f"{path}.path", reference["path"])


def field_selector(path: str, selector: Tree, supported: Sequence[str]) -> Causes:
    """Validate a reference to a field of the pod; labels and annotations by key."""
    field = selector.get("fieldPath", "")
    if not selector.get("apiVersion"):
        yield required(f"{path}.apiVersion")
        return
    if not field:
        yield required(f"{path}.fieldPath")
        return
    parent, bracket, key = field.partition("['")
    if bracket and key.endswith("']"):
        key = key[:-2]
        if parent not in ("metadata.annotations", "metadata.labels"):
            why = f"error converting fieldPath: field label does not support subscript: {field}"
            yield invalid_value(f"{path}.fieldPath", field, why)
        else:
            yield from text(path, key.lower() if parent == "metadata.annotations" else key, qualified_name)
    elif field not in _KNOWN_FIELDS:
        why = f"error converting fieldPath: field label not supported: {field}"
        yield invalid_value(f"{path}.fieldPath", field, why)
    elif field not in supported:
        yield not_supported(f"{path}.fieldPath", field, supported)


def volume_field_selector(path: str, selector: Tree) -> Causes:
    yield from field_selector(path, selector, _VOLUME_FIELDS)


def resource_field_selector(path: str, selector: Tree, *, in_volume: bool = False) -> Causes:
    resource = selector.get("resource", "")
    if in_volume and not selector.get("containerName"):
        yield required(f"{path}.containerName")
    elif not resource:
        yield required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(("requests.hugepages-", "limits.hugepages-")):
        yield not_supported(f"{path}.resource", resource, _RESOURCES)


def env_from(path: str, sources: Sequence[Tree]) -> Causes:
    for index, source in enumerate(sources):
        at = f"{path}[{index}]"
        if source.get("prefix"):
            yield from text(f"{at}.prefix", source["prefix"], env_name)
        kinds = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in kinds:
            yield from required_text(f"{at}.{name}.name", source[name].get("name"), dns_subdomain)
        if not kinds:
            yield invalid_value(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(kinds) > 1:
            yield invalid_value(path, "", "may not have more than one field specified at a time")
