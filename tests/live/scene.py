"""A namespace and nodes of a test's own, so that tests do not get in each other's way on one cluster."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

from tests.live.cluster import Object, TestCluster
from tests.live.replica import wait_for

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
LABEL = "mooring-test"


class Scene:
    """Pods of a scene go to its nodes only, for the scheduler that the test is about.

    Nobody runs the pods, so that a deleted one stays until it is deleted without grace.
    """

    def __init__(self, cluster: TestCluster, name: str, scheduler_name: str) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.namespace = f"{name}-{secrets.token_hex(3)}"
        self.scheduler_name = scheduler_name
        self.pods_path = f"/api/v1/namespaces/{self.namespace}/pods"
        self._others: list[str] = []
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    # ---- setting it

    def create(self, path: str, body: Object) -> Object:
        """Anything else; it is deleted with the scene."""
        self._others.append(f"{path}/{body['metadata']['name']}")
        made: Object = self.api.create(path, body)
        return made

    def node(self, name: str, **allocatable: str) -> str:
        """A node with room for a few pods; its name in the cluster."""
        full = f"{self.namespace}-{name}"
        labels = {LABEL: self.namespace, "kubernetes.io/hostname": full}
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "1000", **allocatable}
        status = {"allocatable": amounts, "capacity": amounts}
        self.create(NODES, {"metadata": {"name": full, "labels": labels}, "status": status})
        return full

    def pod(self, name: str, *, cpu: str = "10m", labels: Object | None = None, **spec: Any) -> Object:
        made: Object = self.api.create(self.pods_path, self.pod_body(name, cpu=cpu, labels=labels, **spec))
        return made

    def pod_body(self, name: str, *, cpu: str = "10m", labels: Object | None = None, **spec: Any) -> Object:
        return {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {
                "schedulerName": self.scheduler_name,
                "nodeSelector": {LABEL: self.namespace},
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}],
                **spec,
            },
        }

    def delete(self, name: str) -> None:
        self.api.delete(f"{self.pods_path}/{name}", gracePeriodSeconds=0)

    # ---- looking at it

    def get(self, name: str) -> Object:
        found: Object = self.api.get(f"{self.pods_path}/{name}")
        return found

    def node_of(self, name: str) -> str:
        return self.get(name)["spec"].get("nodeName") or ""

    def condition(self, name: str, kind: str = "PodScheduled") -> Object | None:
        conditions = self.get(name)["status"].get("conditions") or []
        return next((c for c in conditions if c["type"] == kind), None)

    def events(self, name: str, reason: str) -> list[Object]:
        """The events about a pod, in events.k8s.io's words, in their order."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        found = [
            event
            for event in self.api.get(path)["items"]
            if event["regarding"]["name"] == name and event["reason"] == reason
        ]
        return sorted(found, key=lambda event: str(event["eventTime"]))

    def bound(self, *names: str) -> list[str]:
        """Wait until pods have nodes; which."""
        return [wait_for(lambda n=name: self.node_of(n), f"{name} gets a node") for name in names]  # type: ignore[misc]

    def event(self, name: str, reason: str) -> Object:
        """Wait for an event about a pod; the first."""
        return wait_for(lambda: self.events(name, reason), f"event {reason} about {name}")[0]

    def refused(self, name: str, word: str = "") -> Object:
        """Wait until a pod's condition says that it was not scheduled (with this word in its message)."""

        def look() -> Object | None:
            found = self.condition(name)
            wanted = found is not None and found["status"] == "False" and word in found["message"]
            return found if wanted else None

        condition = wait_for(look, f"{name} is refused: {word}")
        assert condition is not None
        return condition

    def all_bound(self) -> list[Object]:
        """Wait until every pod of the scene has a node; they."""

        def look() -> list[Object]:
            pods: list[Object] = self.api.get(self.pods_path)["items"]
            return pods if all(pod["spec"].get("nodeName") for pod in pods) else []

        return wait_for(look, f"all pods of {self.namespace} get nodes", patience=120, every=0.2)

    # ---- the end

    def clear(self) -> None:
        for pod in self.api.get(self.pods_path)["items"]:
            self.delete(pod["metadata"]["name"])
        for path in reversed(self._others):
            self.api.delete(path)
        self.api.delete(f"/api/v1/namespaces/{self.namespace}")


def names(prefix: str, count: int) -> Iterable[str]:
    return [f"{prefix}-{number:03d}" for number in range(count)]
