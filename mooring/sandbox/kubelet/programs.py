"""What the containers of pods do, read once for all pods of a template."""

from __future__ import annotations

from mooring.api.kinds import ApiResource
from mooring.api.objects import Pod
from mooring.client.api_errors import ApiError
from mooring.client.port import Cluster
from mooring.sandbox.programs.specs import PodRun

POD_RUNS = ApiResource("", "v1", "pods", True, PodRun)
HASHES = ("pod-template-hash", "controller-revision-hash", "batch.kubernetes.io/controller-uid")
"""Labels by which controllers mark the pods that they made from one template."""

MOST = 4096


class Programs:
    """Reads the part of pods that the scheduler's model leaves out."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[tuple[str, str], PodRun] = {}

    async def read(self, pod: Pod) -> PodRun | None:
        """Return what the containers of a pod do; None if it has been deleted."""
        owner, labels = pod.metadata.controller(), pod.metadata.labels
        template = next((labels[name] for name in HASHES if name in labels), "")
        if owner is None or not template:
            return await self.fetch(pod)
        key = owner.uid, template
        run = self._known.get(key)
        if run is None:
            run = await self.fetch(pod)
            if run is not None:
                if len(self._known) >= MOST:
                    self._known.clear()
                self._known[key] = run
        return run

    async def fetch(self, pod: Pod) -> PodRun | None:
        """Return what the containers of this very pod do, ephemeral ones among them."""
        try:
            return await self._cluster.get(POD_RUNS, pod.name, pod.namespace)
        except ApiError as refusal:
            if not refusal.not_found:
                raise
            return None
