"""APIServices."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.sandbox.apiserver.errors import Cause, invalid_value, not_supported, required
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.fields import Causes, text
from mooring.sandbox.apiserver.validation.names import dns_1035_label, dns_subdomain, port_number

_HIGHEST_GROUP, _HIGHEST_VERSION = 20_000, 1_000
_STATUSES = ("True", "False", "Unknown")


def api_service(obj: Tree) -> Causes:
    spec, name = obj.get("spec") or {}, obj["metadata"]["name"]
    group, version = spec.get("group", ""), spec.get("version", "")
    if name != f"{version}.{group}":
        why = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
        yield invalid_value("metadata.name", name, why)
    if not group and version != "v1":
        yield required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    if group:
        yield from text("spec.group", group, dns_subdomain)
    yield from text("spec.version", version, dns_1035_label)
    yield from _priority(spec, "groupPriorityMinimum", _HIGHEST_GROUP)
    yield from _priority(spec, "versionPriority", _HIGHEST_VERSION)
    if spec.get("service") is None:
        yield from _local(spec)
    else:
        yield from _remote(spec, spec["service"])


def _priority(spec: Tree, name: str, highest: int) -> Causes:
    value = spec.get(name) or 0
    if not 0 < value <= highest:
        yield invalid_value(f"spec.{name}", value, f"must be positive and less than {highest}")


def _local(spec: Tree) -> Iterator[Cause]:
    if spec.get("caBundle"):
        yield invalid_value("spec.caBundle", spec["caBundle"], "local APIServices may not have a caBundle")
    if spec.get("insecureSkipTLSVerify"):
        why = "local APIServices may not have insecureSkipTLSVerify"
        yield invalid_value("spec.insecureSkipTLSVerify", True, why)


def _remote(spec: Tree, service: Tree) -> Iterator[Cause]:
    for name in ("namespace", "name"):
        if not service.get(name):
            yield required(f"spec.service.{name}")
    port = service.get("port", 0)
    for problem in port_number(port):
        yield invalid_value("spec.service.port", port, f"port is not valid: {problem}")
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        yield invalid_value("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


def api_service_status(obj: Tree, old: Tree) -> Causes:
    for index, condition in enumerate(dig(obj, "status", "conditions") or ()):
        status = condition.get("status", "")
        if status not in _STATUSES:
            yield not_supported(f"status.conditions[{index}].status", status, _STATUSES)
