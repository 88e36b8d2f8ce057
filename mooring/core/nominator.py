"""Pods that are promised a node: preemption makes room for them, and others must count them as there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mooring.framework.pod import PodInfo


class Nominator:
    """Which pods are nominated to which node.

    It knows more than the pods' objects say: a nomination counts from the moment the scheduler makes it,
    not from when the API server has stored it in status.nominatedNodeName.

    kube-scheduler keeps references and looks the pods up in its queue; for a pod that is being scheduled
    at that moment it finds nothing and counts one without requests and priority. Here a nomination holds
    the pod itself, so it always counts in full.
    """

    __slots__ = ("_changed", "_is_pending", "_kept_until", "_node_of", "_pods_of")

    def __init__(
        self,
        is_pending: Callable[[PodInfo], bool] | None = None,
        changed: Callable[[str], None] | None = None,
    ) -> None:
        """`is_pending` returns whether a pod still exists and has no node; others are not nominated.
        `changed` is called with each node whose nominated pods changed."""
        self._is_pending = is_pending
        self._changed = changed or (lambda node_name: None)
        self._node_of: dict[str, str] = {}
        self._pods_of: dict[str, list[PodInfo]] = {}
        self._kept_until: dict[str, float] = {}  # when the last pod on the nodes kept for a gang has to end

    def add(self, pod: PodInfo, node_name: str | None = None) -> None:
        """Replace the nomination of a pod. "" removes it; None takes it from the object."""
        self.delete(pod.uid)
        if node_name is None:
            node_name = pod.status.nominated_node_name
        if not node_name or (self._is_pending is not None and not self._is_pending(pod)):
            return
        self._node_of[pod.uid] = node_name
        self._pods_of.setdefault(node_name, []).append(pod)
        self._changed(node_name)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """A pod's object changed, and with it perhaps its nomination."""
        kept: str | None = None
        if not old.status.nominated_node_name and not new.status.nominated_node_name:
            # An object written before the nomination reached the API server must not undo it.
            kept = self._node_of.get(old.uid)
            if kept is None and old.uid == new.uid:
                return
        node_name, until = self.node_of(old.uid), self._kept_until.get(old.uid)
        self.delete(old.uid)
        self.add(new, kept)
        if until is not None and self.node_of(new.uid) == node_name:
            self.keep(new.uid, until)

    def keep(self, uid: str, until: float) -> None:
        """Let pods use the room of a nominated pod that end by a time, before which it will not start."""
        if uid in self._node_of:
            self._kept_until[uid] = until
            self._changed(self._node_of[uid])

    def kept_until(self, uid: str) -> float | None:
        """Until when pods may use the room of a nominated pod; None where they may not."""
        return self._kept_until.get(uid)

    def backfills(self, end: float) -> bool:
        """Whether a pod that ends by then may use room that is kept for another."""
        return any(until >= end for until in self._kept_until.values())

    def starting_before(self, node_name: str, end: float) -> Sequence[PodInfo]:
        """The pods nominated to a node that may start before a pod which ends by then is gone."""
        return [pod for pod in self.nominated_for(node_name) if self._kept_until.get(pod.uid, 0.0) < end]

    def refresh(self, pod: PodInfo) -> None:
        """Hold the pod's newest object, and leave its nomination as it is."""
        node_name = self._node_of.get(pod.uid)
        if node_name is not None:
            pods = self._pods_of[node_name]
            pods[[each.uid for each in pods].index(pod.uid)] = pod
            self._changed(node_name)

    def delete(self, uid: str) -> None:
        """Forget a pod's nomination, if it has one."""
        node_name = self._node_of.pop(uid, None)
        self._kept_until.pop(uid, None)
        if node_name is None:
            return
        pods = [pod for pod in self._pods_of[node_name] if pod.uid != uid]
        if pods:
            self._pods_of[node_name] = pods
        else:
            del self._pods_of[node_name]
        self._changed(node_name)

    def node_of(self, uid: str) -> str:
        """The node a pod is nominated to, or ""."""
        return self._node_of.get(uid, "")

    def nominated_for(self, node_name: str) -> Sequence[PodInfo]:
        """The pods nominated to a node, in the order in which they were."""
        return self._pods_of.get(node_name, ())

    def nodes_with_nominations(self) -> Mapping[str, Sequence[PodInfo]]:
        """Every node that has nominated pods, with them: the nominator's own, to be read only."""
        return self._pods_of

    def validate(self) -> None:
        """Raise AssertionError where the two sides of the mapping disagree."""
        listed = {pod.uid: node for node, pods in self._pods_of.items() for pod in pods}
        assert listed == self._node_of, f"nominations by node {listed}, by pod {self._node_of}"
        assert all(self._pods_of.values()), f"nodes without nominated pods are kept: {self._pods_of}"
