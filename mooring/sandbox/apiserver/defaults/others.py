"""Autoscaling, storage, scheduling, networking, discovery, rbac and resource claims."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.objects import Tree, dig

_CPU_UTILIZATION: Final = 80
_SCALE_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: Final = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def default_horizontal_pod_autoscaler(obj: Tree) -> None:
    spec = obj["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": _CPU_UTILIZATION}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if "behavior" in spec:
        behavior = spec["behavior"]
        spec["behavior"] = {
            "scaleUp": {**_SCALE_UP, **behavior.get("scaleUp", {})},
            "scaleDown": {**_SCALE_DOWN, **behavior.get("scaleDown", {})},
        }


def default_api_service(obj: Tree) -> None:
    service = obj.get("spec", {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


def default_lease(obj: Tree) -> None:
    """Drop the fields of coordinated leader election, which is not served."""
    obj["spec"].pop("strategy", None)
    obj["spec"].pop("preferredHolder", None)


def default_storage_class(obj: Tree) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def default_csi_driver(obj: Tree) -> None:
    spec = obj["spec"]
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("storageCapacity", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("volumeLifecycleModes", ["Persistent"])
    spec.setdefault("requiresRepublish", False)
    spec.setdefault("seLinuxMount", False)


def default_pod_group(obj: Tree) -> None:
    obj["spec"].setdefault("disruptionMode", "Pod")


def default_priority_class(obj: Tree) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def default_endpoint_slice(obj: Tree) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def default_network_policy(obj: Tree) -> None:
    spec = obj["spec"]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
        for port in rule.get("ports", ()):
            port.setdefault("protocol", "TCP")


def default_ingress_class(obj: Tree) -> None:
    parameters = obj["spec"].get("parameters")
    if parameters is not None and parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


_RBAC: Final = "rbac.authorization.k8s.io"


def default_role_binding(obj: Tree) -> None:
    if not obj["roleRef"].get("apiGroup"):
        obj["roleRef"]["apiGroup"] = _RBAC
    for subject in obj.get("subjects", ()):
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", _RBAC)


def default_resource_claim(obj: Tree) -> None:
    _device_requests(obj["spec"])
    allocation = dig(obj, "status", "allocation", "devices") or {}
    for result in allocation.get("results") or ():
        default_device_tolerations(result)


def default_resource_claim_template(obj: Tree) -> None:
    _device_requests(obj["spec"]["spec"])


def _device_requests(spec: Tree) -> None:
    for request in spec["devices"].get("requests") or ():
        for exact in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if exact is not None:
                if exact.setdefault("allocationMode", "ExactCount") == "ExactCount":
                    exact["count"] = exact.get("count") or 1
                default_device_tolerations(exact)


def default_device_tolerations(item: Tree) -> None:
    """Set the operators in a request, or in a result of an allocation."""
    for toleration in item.get("tolerations") or ():
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"
