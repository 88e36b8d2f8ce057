"""The rest of the core group: services, storage, nodes, limits and so on."""

from __future__ import annotations

import base64

from mooring.sandbox.apiserver.defaults.containers import default_volume_source, round_up
from mooring.sandbox.apiserver.objects import Tree

_AFFINITY_SECONDS = 10800


def default_service(obj: Tree) -> None:
    spec = obj["spec"]
    affinity = spec.setdefault("sessionAffinity", "None")
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if "timeoutSeconds" not in config:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (0, ""):
            port["targetPort"] = port.get("port", 0)
    reachable = kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs"))
    if reachable:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in obj["status"]["loadBalancer"].get("ingress", ()):
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def default_persistent_volume_claim(obj: Tree) -> None:
    obj["status"].setdefault("phase", "Pending")
    obj["spec"].setdefault("volumeMode", "Filesystem")
    round_up(obj["spec"]["resources"])
    round_up(obj["status"], "capacity", "allocatedResources")


def default_persistent_volume(obj: Tree) -> None:
    spec = obj["spec"]
    obj["status"].setdefault("phase", "Pending")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    default_volume_source(spec)
    round_up(spec, "capacity")


def default_secret(obj: Tree) -> None:
    obj.setdefault("type", "Opaque")
    texts = obj.pop("stringData", None)  # write-only
    if texts:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        obj["data"] = {**obj.get("data", {}), **encoded}


def default_endpoints(obj: Tree) -> None:
    for subset in obj.get("subsets", ()):
        for port in subset.get("ports", ()):
            port.setdefault("protocol", "TCP")


def default_node(obj: Tree) -> None:
    status = obj["status"]
    round_up(status, "capacity", "allocatable")
    if status.get("capacity") and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def default_limit_range(obj: Tree) -> None:
    for limit in obj["spec"].get("limits") or ():
        names = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
        round_up(limit, *names)
        if limit.get("type") != "Container":
            continue
        default = {**limit.get("max", {}), **limit.get("default", {})}
        request = {**limit.get("min", {}), **default, **limit.get("defaultRequest", {})}
        for name, value in (("default", default), ("defaultRequest", request)):
            if value:
                limit[name] = value


def default_resource_quota(obj: Tree) -> None:
    round_up(obj["spec"], "hard")
    round_up(obj["status"], "hard", "used")
