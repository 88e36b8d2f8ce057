"""What pods hold in addition to room on their nodes: devices of claims, and volumes that drivers attach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.faults.history import Entry
from tests.faults.pods import Pod, Tree

Device = tuple[str, str, str]  # driver, pool, name


class Attachments:
    """The claims, volumes and limits of the history."""

    def __init__(self) -> None:
        self._resource_claims: dict[str, Tree] = {}
        self._volume_claims: dict[str, Tree] = {}
        self._volumes: dict[str, Tree] = {}
        self._csi_nodes: dict[str, Tree] = {}
        self.tables = {
            "resourceclaims.resource.k8s.io": self._resource_claims,
            "persistentvolumeclaims": self._volume_claims,
            "persistentvolumes": self._volumes,
            "csinodes.storage.k8s.io": self._csi_nodes,
        }

    def changed(self, entry: Entry, tree: Tree | None) -> None:
        if tree is None:
            self.tables[entry.table].pop(entry.key, None)
        else:
            self.tables[entry.table][entry.key] = tree

    def problems_of(self, bound: Pod, pods: Iterable[Pod]) -> Iterator[tuple[str, str]]:
        """Yield the invariants that a binding violates, given the pods that have a node."""
        others = [pod for pod in pods if pod is not bound]
        for claim in self._claims(bound):
            users = [user["uid"] for user in (claim.get("status") or {}).get("reservedFor") or ()]
            if bound.uid not in users:
                name = claim["metadata"]["name"]
                yield "claims are reserved before pods are bound", f"pod {bound.key}: {name}: {users}"
        mine = self._devices(bound)
        for pod in others if mine else ():
            claims = {claim["metadata"]["uid"] for claim in self._claims(pod)}
            if not claims.isdisjoint(claim["metadata"]["uid"] for claim in self._claims(bound)):
                continue  # they share a claim
            for device in mine & self._devices(pod):
                yield "no device is used twice", f"{'/'.join(device)}: pods {pod.key} and {bound.key}"
        limits = self._limits(bound.node)
        for driver, handles in self._attached([*others, bound], bound.node).items():
            if self._attached([bound], bound.node).get(driver) and len(handles) > limits.get(driver, 1000):
                yield "no volume limit is exceeded", f"{bound.node}: {len(handles)} of {driver}"

    def _claims(self, pod: Pod) -> Iterator[Tree]:
        namespace = pod.key.split("/")[0]
        names = {each["name"]: each.get("resourceClaimName") for each in pod.spec.get("resourceClaims") or ()}
        for status in (pod.tree.get("status") or {}).get("resourceClaimStatuses") or ():
            names[status["name"]] = status.get("resourceClaimName")
        for name in names.values():
            if (claim := self._resource_claims.get(f"{namespace}/{name}")) is not None:
                yield claim

    def _devices(self, pod: Pod) -> set[Device]:
        return {
            (result["driver"], result["pool"], result["device"])
            for claim in self._claims(pod)
            for result in (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get(
                "results", ()
            )
        }

    def _limits(self, node: str) -> dict[str, int]:
        drivers = self._csi_nodes.get(node, {}).get("spec", {}).get("drivers") or ()
        return {d["name"]: d["allocatable"]["count"] for d in drivers if d.get("allocatable")}

    def _attached(self, pods: Iterable[Pod], node: str) -> dict[str, set[str]]:
        """Return the volumes of pods on a node, by driver."""
        found: dict[str, set[str]] = {}
        for pod in pods:
            for volume in pod.spec.get("volumes") or () if pod.node == node else ():
                name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
                claim = self._volume_claims.get(f"{pod.key.split('/')[0]}/{name}", {})
                csi = (
                    self._volumes.get(claim.get("spec", {}).get("volumeName", ""), {})
                    .get("spec", {})
                    .get("csi")
                )
                if csi:
                    found.setdefault(csi["driver"], set()).add(csi["volumeHandle"])
        return found
