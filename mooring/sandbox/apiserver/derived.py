"""Objects that the server writes for others: IPAddresses for Services, APIServices for what it serves."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.discovery import GROUP_PRIORITIES
from mooring.sandbox.apiserver.objects import Tree, encode_tail
from mooring.sandbox.apiserver.store.record import Event, Record, key_of
from mooring.sandbox.apiserver.strategies.service_strategy import address_of

_NETWORKING, _REGISTRATION = "networking.k8s.io", "apiregistration.k8s.io"
_MANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
_CUSTOM_PRIORITIES: Final = (1000, 100)
_VERSION_PRIORITIES: Final = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1"): 21,
}


def put_object(api: Api, group: str, plural: str, obj: Tree, *, replace: bool = False) -> None:
    """Write an object in its stored form directly to its table; one that exists stays unless `replace`."""
    metadata = obj["metadata"]
    resource = api.registry.find(group, "v1", plural)
    assert resource is not None
    name, namespace = metadata["name"], metadata.get("namespace", "")
    before = api.read(resource.storage, name, namespace)
    if before is not None and not replace:
        return
    identity = {"uid": api.new_uid(), "creationTimestamp": api.now()}
    if before is not None:
        identity = {key: before["metadata"][key] for key in identity}
    tail = encode_tail({**obj, "metadata": {**metadata, **identity}})
    table = api.table(resource)
    table.put(key_of(namespace, name), tail, metadata.get("labels"), resource.strategy.select(obj))


# ---- IPAddresses ----------------------------------------------------------------------------------


def follow_services(api: Api) -> None:
    """Keep an IPAddress for the address of each Service, from within the writes of Services."""
    table = api.store.table("services")
    for record in table.records.values():
        if address_of(record):
            _put_address(api, record)
    table.listeners.append(lambda event: _service_changed(api, event))


def _service_changed(api: Api, event: Event) -> None:
    before = "" if event.before is None else address_of(event.before)
    after = "" if event.type == "DELETED" else address_of(event.record)
    if before == after:
        return
    addresses = api.store.table(f"ipaddresses.{_NETWORKING}")
    if before in addresses.records:
        addresses.delete(before)
    if after:
        _put_address(api, event.record)


def _put_address(api: Api, service: Record) -> None:
    labels = {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    parent = {"resource": "services", "namespace": service.namespace, "name": service.name}
    obj = {
        "apiVersion": f"{_NETWORKING}/v1",
        "kind": "IPAddress",
        "metadata": {"name": address_of(service), "labels": labels},
        "spec": {"parentRef": parent},
    }
    put_object(api, _NETWORKING, "ipaddresses", obj)


# ---- APIServices ----------------------------------------------------------------------------------


def publish_group_versions(api: Api) -> None:
    """Write an APIService for each version of a group that is served, and remove those of others."""
    table = api.store.table(f"apiservices.{_REGISTRATION}")
    served = {(one.group, one.version): one.custom for one in api.registry if one.group != _REGISTRATION}
    for (group, version), custom in served.items():
        if f"{version}.{group}" not in table.records:
            put_object(api, _REGISTRATION, "apiservices", _api_service(api, group, version, custom))
    for record in list(table.records.values()):
        version, _, group = record.name.partition(".")
        if (record.labels or {}).get(_MANAGED) == "true" and (group, version) not in served:
            table.delete(record.key)


def _api_service(api: Api, group: str, version: str, custom: bool) -> Tree:
    importance, order = _CUSTOM_PRIORITIES
    if not custom:
        importance = GROUP_PRIORITIES[group]
        order = _VERSION_PRIORITIES.get((group, version), 15 if version[1:].isdigit() else 9)
    spec = {"version": version, "groupPriorityMinimum": importance, "versionPriority": order}
    available = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": api.now(),
        "reason": "Local",
        "message": "Local APIServices are always available",
    }
    return {
        "apiVersion": f"{_REGISTRATION}/v1",
        "kind": "APIService",
        "metadata": {
            "name": f"{version}.{group}",
            "labels": {_MANAGED: "true" if custom else "onstart"},
        },
        "spec": {"group": group, **spec} if group else spec,
        "status": {"conditions": [available]},
    }
