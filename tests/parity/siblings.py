"""What kube-scheduler's group cycle does not see: the affinity of members that it has just placed.

Its lists of nodes with such pods are made before the attempt. So the required anti-affinity of a member
counts for its siblings only on nodes that had a pod with required anti-affinity before, and its other terms
only on nodes that had a pod with any. Mooring always counts them; they are hidden here for the comparison.
Not imitated: the scores of a member with preferred terms of its own take all of its siblings' terms in.
"""

from __future__ import annotations

from msgspec.structs import replace

from mooring.api.objects import Affinity, Pod
from mooring.framework.pod import PodInfo
from mooring.state.cluster import ClusterState


class HiddenTerms:
    """Has a cluster assume members of groups without the terms that their siblings would not see."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._assume = cluster.assume
        self._with_terms: set[str] = set()
        self._with_anti_affinity: set[str] = set()
        cluster.assume = self.assume  # type: ignore[method-assign]

    def start_attempt(self) -> None:
        """Note which nodes have pods with terms."""
        pods = [pod for pod in self._cluster.pods() if pod.shape.affinity_terms]
        self._with_terms = {pod.node_name for pod in pods}
        self._with_anti_affinity = {
            pod.node_name for pod in pods if any(t.required and t.anti for t in pod.shape.affinity_terms)
        }

    def assume(self, pod: PodInfo, node_name: str) -> None:
        if pod.group is not None and pod.shape.affinity_terms and node_name not in self._with_anti_affinity:
            pod = self._cluster.info(self._seen_on(node_name, pod.pod)).placed_on(node_name)
        self._assume(pod, node_name)

    def _seen_on(self, node_name: str, pod: Pod) -> Pod:
        affinity = pod.spec.affinity
        assert affinity is not None
        if node_name not in self._with_terms:
            affinity = Affinity(node_affinity=affinity.node_affinity)
        elif affinity.pod_anti_affinity is not None:
            affinity = replace(affinity, pod_anti_affinity=replace(affinity.pod_anti_affinity, required=[]))
        return replace(pod, spec=replace(pod.spec, affinity=affinity))
