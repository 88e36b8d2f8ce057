"""The objects of a new cluster."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.authorization.default_roles import default_roles
from mooring.sandbox.apiserver.authorization.rbac import GROUP
from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.context.options import DEFAULT_WRITE
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.kinds.codec import FieldValidation
from mooring.sandbox.apiserver.objects import Tree, encode_tail
from mooring.sandbox.apiserver.store.record import key_of
from mooring.sandbox.apiserver.strategies.service_strategy import FIRST_ADDRESS
from mooring.sandbox.apiserver.validation.cluster import SYSTEM_CLASSES
from mooring.sandbox.apiserver.verbs.creating import create
from mooring.sandbox.apiserver.verbs.updating import update

_SYSTEM: Final = User("system:apiserver", ("system:masters",))
_NAME: Final = "kubernetes"
_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_DESCRIPTIONS: Final = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node if "
        "necessary."
    ),
    "system-node-critical": ("Used for system critical pods that must not be moved from their current node."),
}


def bootstrap(api: Api) -> None:
    """Create the namespaces, priority classes and service of every cluster, where they do not exist."""
    for name in _NAMESPACES:
        _create(api, "", "namespaces", "", {"metadata": {"name": name}})
    for name, value in SYSTEM_CLASSES.items():
        body = {"metadata": {"name": name}, "value": value, "description": _DESCRIPTIONS[name]}
        _create(api, "scheduling.k8s.io", "priorityclasses", "", body)
    _create(api, "", "services", "default", _service())


def _service() -> Tree:
    """The service under which pods find the API."""
    return {
        "metadata": {
            "name": _NAME,
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": FIRST_ADDRESS,
            "ports": [{"name": "https", "port": 443, "targetPort": 6443}],
        },
    }


def publish_address(api: Api, host: str, port: int) -> None:
    """Write the Endpoints and the EndpointSlice of the service, with the address the API is served at."""
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    endpoints = {
        "metadata": {"name": _NAME, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": host}], "ports": ports}],
    }
    endpoint_slice = {
        "metadata": {"name": _NAME, "labels": {"kubernetes.io/service-name": _NAME}},
        "addressType": "IPv6" if ":" in host else "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": ports,
    }
    for group, plural, body in (
        ("", "endpoints", endpoints),
        ("discovery.k8s.io", "endpointslices", endpoint_slice),
    ):
        _create(api, group, plural, "default", body, replace=True)


def bootstrap_roles(api: Api) -> None:
    """Create the default roles, for clients over HTTP; in-process callers may do everything."""
    for role in default_roles():
        _put_role(api, role)


def _put_role(api: Api, role: Tree) -> None:
    """Write a role directly to its table: there are many, in their stored form."""
    metadata = role["metadata"]
    resource = api.registry.find(GROUP, "v1", f"{role['kind'].lower()}s")
    assert resource is not None
    table, key = api.table(resource), key_of(metadata.get("namespace", ""), metadata["name"])
    if key not in table.records:
        made = {**metadata, "uid": api.new_uid(), "creationTimestamp": api.now()}
        tail = encode_tail({**role, "metadata": made})
        table.put(key, tail, metadata["labels"], resource.strategy.select(role))


def _create(api: Api, group: str, plural: str, namespace: str, body: Tree, *, replace: bool = False) -> None:
    """Create an object; one that exists stays as it is unless `replace`."""
    resource = api.registry.find(group, "v1", plural)
    assert resource is not None
    name = body["metadata"]["name"]
    exists = api.record(resource.storage, name, namespace) is not None
    if exists and not replace:
        return
    obj = resource.codec.sift(body, FieldValidation.STRICT).tree
    if exists:
        update(Write(api, resource, namespace, name, _SYSTEM, DEFAULT_WRITE, "UPDATE"), obj)
    else:
        create(Write(api, resource, namespace, "", _SYSTEM, DEFAULT_WRITE, "CREATE"), obj)
