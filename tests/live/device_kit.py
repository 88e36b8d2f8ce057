"""Devices, classes and claims of a scene on a real API server, and proof of which pods had which devices."""

from __future__ import annotations

from typing import Any

from tests.live.cluster import Object
from tests.live.control_plane import ClaimWrite, ControlPlane
from tests.live.replica import wait_for
from tests.live.scene import Scene

GROUP = "/apis/resource.k8s.io/v1"
CLASSES = f"{GROUP}/deviceclasses"
SLICES = f"{GROUP}/resourceslices"
FINALIZER = "resource.kubernetes.io/delete-protection"


class Devices:
    """The class and the slices of a scene. No driver of another scene has its devices."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.api = scene.api
        self.driver = f"{scene.namespace}.example.com"
        self.claims_path = f"{GROUP}/namespaces/{scene.namespace}/resourceclaims"
        self.templates_path = f"{GROUP}/namespaces/{scene.namespace}/resourceclaimtemplates"
        selector = {"cel": {"expression": f'device.driver == "{self.driver}"'}}
        scene.create(CLASSES, {"metadata": {"name": scene.namespace}, "spec": {"selectors": [selector]}})

    def publish(self, node: str, count: int, **device: Any) -> None:
        """Give a node devices gpu-0, gpu-1 and so on."""
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{i}", **device} for i in range(count)]
        spec = {"driver": self.driver, "nodeName": node, "pool": pool, "devices": devices}
        self.scene.create(SLICES, {"metadata": {"name": f"{node}-devices"}, "spec": spec})

    def _spec(self, count: int) -> Object:
        request = {
            "name": "gpu",
            "exactly": {"deviceClassName": self.scene.namespace, "count": count},
        }
        return {"devices": {"requests": [request]}}

    def claim(self, name: str, count: int = 1) -> None:
        self.scene.create(self.claims_path, {"metadata": {"name": name}, "spec": self._spec(count)})

    def template(self, name: str, count: int = 1) -> None:
        body = {"metadata": {"name": name}, "spec": {"spec": self._spec(count)}}
        self.scene.create(self.templates_path, body)

    def get(self, name: str) -> Object:
        found: Object = self.api.get(f"{self.claims_path}/{name}")
        return found

    def generated(self, pod: str) -> Object:
        """Wait for the claim that the controller makes of a pod's template."""

        def look() -> str:
            statuses = self.scene.get(pod)["status"].get("resourceClaimStatuses") or [{}]
            name: str = statuses[0].get("resourceClaimName", "")
            return name

        return self.get(wait_for(look, f"{pod} gets a claim"))

    def deallocated(self, name: str) -> Object:
        """Wait until a claim holds no devices; the claim then."""

        def look() -> list[Object]:
            claim = self.get(name)
            return [] if held_devices(claim) or claim["metadata"].get("finalizers") else [claim]

        return wait_for(look, f"{name} is deallocated")[0]


def with_claim(name: str) -> Object:
    return {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}


def with_template(name: str) -> Object:
    return {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}]}


def held_devices(claim: Object) -> list[str]:
    """The devices that a claim has been allocated."""
    allocation = claim.get("status", {}).get("allocation", {})
    return [result["device"] for result in allocation.get("devices", {}).get("results", [])]


def users(claim: Object) -> list[str]:
    return [each["name"] for each in claim.get("status", {}).get("reservedFor", [])]


def double_allocations(plane: ControlPlane, namespace: str) -> list[tuple[ClaimWrite, str]]:
    """Replay the statuses in the order of etcd; each write of devices that another claim held then."""
    holders: dict[tuple[str, str, str], str] = {}
    overlaps = []
    for write in plane.claim_writes(namespace):
        for device in [device for device, claim in holders.items() if claim == write.claim]:
            if device not in write.devices:
                del holders[device]
        for device in sorted(write.devices):
            holder = holders.setdefault(device, write.claim)
            if holder != write.claim:
                overlaps.append((write, holder))
    return overlaps


def double_uses(plane: ControlPlane, namespace: str) -> list[tuple[ClaimWrite, str]]:
    """The double allocations that were not withdrawn before the pod was bound."""
    bound = {binding.pod for binding in plane.bindings(namespace) if binding.code == 201}
    writes = plane.claim_writes(namespace)

    def is_withdrawn(write: ClaimWrite) -> bool:
        later = [each for each in writes if each.claim == write.claim and each.version > write.version]
        return bool(later) and not later[0].devices and not write.pods & bound

    return [each for each in double_allocations(plane, namespace) if not is_withdrawn(each[0])]
