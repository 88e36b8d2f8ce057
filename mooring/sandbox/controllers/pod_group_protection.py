"""Protection of pod groups: a deleted group stays until its pods have ended."""

from __future__ import annotations

from mooring.api.groups import PodGroup
from mooring.api.kinds import POD_GROUPS, PODS
from mooring.api.objects import Pod
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller

FINALIZER = "scheduling.k8s.io/podgroup-protection"
_INDEX = "pod group"


class PodGroupProtection(Controller):
    name = "podgroup-protection-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._groups = self.cache.follow(POD_GROUPS)
        self._pods = self.cache.follow(PODS)
        self._pods.index(_INDEX, _group_of)
        self._groups.subscribe(self._group_changed)
        self._pods.subscribe(self._pod_changed)

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        if new is not None and new.metadata.deletion_timestamp is not None:
            self.enqueue(new.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.finished):
            for key in _group_of(old):
                self.enqueue(key)

    async def sync(self, key: str) -> None:
        group = self._groups.get(key)
        if group is None or group.metadata.deletion_timestamp is None:
            return
        finalizers = group.metadata.finalizers
        if FINALIZER not in finalizers or any(not pod.finished for pod in self._pods.by(_INDEX, key)):
            return
        kept = [one for one in finalizers if one != FINALIZER]
        patch = {"metadata": {"finalizers": kept, "resourceVersion": group.metadata.resource_version}}
        try:
            await self.cluster.patch(POD_GROUPS, group.name, patch, group.namespace)
        except ApiError as refusal:
            if not refusal.not_found:
                raise


def _group_of(pod: Pod) -> tuple[str, ...]:
    group = pod.spec.scheduling_group
    return () if group is None else (f"{pod.namespace}/{group.pod_group_name}",)
