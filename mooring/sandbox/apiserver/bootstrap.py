"""The objects of a new cluster."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.aggregation.upstream import FRONT_PROXY
from mooring.sandbox.apiserver.authorization.default_flows import (
    default_flow_schemas,
    default_priority_levels,
)
from mooring.sandbox.apiserver.authorization.default_roles import default_roles
from mooring.sandbox.apiserver.authorization.rbac import GROUP
from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.context.options import DEFAULT_WRITE
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.derived import follow_services, publish_group_versions, put_object
from mooring.sandbox.apiserver.kinds.codec import FieldValidation
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.strategies.service_strategy import ADDRESSES, FIRST_ADDRESS
from mooring.sandbox.apiserver.validation.cluster import SYSTEM_CLASSES
from mooring.sandbox.apiserver.verbs.creating import create

_SYSTEM: Final = User("system:apiserver", ("system:masters",))
_NAME: Final = "kubernetes"
_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_COMPONENTS: Final = ("controller-manager", "etcd-0", "scheduler")
_DESCRIPTIONS: Final = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node if "
        "necessary."
    ),
    "system-node-critical": ("Used for system critical pods that must not be moved from their current node."),
}


def bootstrap(api: Api) -> None:
    """Create the objects of every cluster, where they do not exist."""
    follow_services(api)
    publish_group_versions(api)
    for name in _NAMESPACES:
        _create(api, "", "namespaces", "", {"metadata": {"name": name}})
    for name, value in SYSTEM_CLASSES.items():
        body = {"metadata": {"name": name}, "value": value, "description": _DESCRIPTIONS[name]}
        _create(api, "scheduling.k8s.io", "priorityclasses", "", body)
    _create(api, "", "services", "default", _service())
    put_object(api, "networking.k8s.io", "servicecidrs", _service_cidr(api))
    _put_settings(api, "kube-apiserver-legacy-service-account-token-tracking", {"since": api.now()[:10]})


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


def _service_cidr(api: Api) -> Tree:
    """The range of the addresses of services."""
    ready = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": api.now(),
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": _NAME},
        "spec": {"cidrs": [str(ADDRESSES)]},
        "status": {"conditions": [ready]},
    }


def publish_address(api: Api, host: str, port: int) -> None:
    """Write the Endpoints and the EndpointSlice of the service, with the address the API is served at. It may
    be a loopback address, which no client could write."""
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    endpoints = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": _NAME,
            "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": [{"ip": host}], "ports": ports}],
    }
    endpoint_slice = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": _NAME,
            "namespace": "default",
            "generation": 1,
            "labels": {"kubernetes.io/service-name": _NAME},
        },
        "addressType": "IPv6" if ":" in host else "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": ports,
    }
    put_object(api, "", "endpoints", endpoints, replace=True)
    put_object(api, "discovery.k8s.io", "endpointslices", endpoint_slice, replace=True)


def publish_authority(api: Api, authority: bytes) -> None:
    """Write the certificate that signs those of clients, which servers such as a scheduler verify them by,
    and how requests look that this server has authenticated for extension API servers."""
    name = "extension-apiserver-authentication"
    settings = {
        "client-ca-file": authority.decode(),
        "requestheader-allowed-names": f'["{FRONT_PROXY}"]',
        "requestheader-client-ca-file": authority.decode(),
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }
    _put_settings(api, name, settings, replace=True)


def _put_settings(api: Api, name: str, data: dict[str, str], *, replace: bool = False) -> None:
    """Write a ConfigMap of the server."""
    metadata = {"name": name, "namespace": "kube-system"}
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    put_object(api, "", "configmaps", obj, replace=replace)


def publish_components(api: Api) -> None:
    """Write the status of the parts of a whole cluster, which run or fail together here."""
    for name in _COMPONENTS:
        condition = {"type": "Healthy", "status": "True", "message": "ok"}
        status = {
            "apiVersion": "v1",
            "kind": "ComponentStatus",
            "metadata": {"name": name},
            "conditions": [condition],
        }
        put_object(api, "", "componentstatuses", status)


def bootstrap_flows(api: Api) -> None:
    """Create the default FlowSchemas and PriorityLevelConfigurations."""
    group = "flowcontrol.apiserver.k8s.io"
    for level in default_priority_levels():
        put_object(api, group, "prioritylevelconfigurations", level)
    for schema in default_flow_schemas():
        put_object(api, group, "flowschemas", schema)


def bootstrap_roles(api: Api) -> None:
    """Create the default roles, for clients over HTTP; in-process callers may do everything."""
    for role in default_roles():
        put_object(api, GROUP, f"{role['kind'].lower()}s", role)


def _create(api: Api, group: str, plural: str, namespace: str, body: Tree) -> None:
    """Create an object; one that exists stays as it is."""
    resource = api.registry.find(group, "v1", plural)
    assert resource is not None
    if api.record(resource.storage, body["metadata"]["name"], namespace) is None:
        obj = resource.codec.sift(body, FieldValidation.STRICT).tree
        create(Write(api, resource, namespace, "", _SYSTEM, DEFAULT_WRITE, "CREATE"), obj)
