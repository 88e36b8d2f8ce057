"""The status of scheduler-plugins' PodGroups, as its controller maintains it."""

from __future__ import annotations

from collections import Counter

import msgspec

from mooring.api.coscheduling import POD_GROUP_LABEL, PodGroup, PodGroupStatus
from mooring.api.kinds import COSCHEDULING_POD_GROUPS, PODS
from mooring.api.objects import Pod
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.sandbox.controllers.statuses import status_changes

_INDEX = "coscheduling group"
_FINAL = ("Finished", "Failed")


class PodGroupPhase(Controller):
    name = "PodGroupController"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._groups = self.cache.follow(COSCHEDULING_POD_GROUPS)
        self._pods = self.cache.follow(PODS)
        self._pods.index(_INDEX, _group_of)
        self._groups.subscribe(self._group_changed)
        self._pods.subscribe(self._pod_changed)

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        if new is not None:
            self.enqueue(new.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is not None and old.status.phase == new.status.phase:
            return
        for pod in (old, new):
            for key in () if pod is None else _group_of(pod):
                self.enqueue(key)

    async def sync(self, key: str) -> None:
        group = self._groups.get(key)
        if group is None or group.status.phase in _FINAL:
            return
        status = next_status(group, self._pods.by(_INDEX, key))
        changes = status_changes(group.status, status)
        if not changes:
            return
        try:
            written = await self.cluster.patch(
                COSCHEDULING_POD_GROUPS,
                group.name,
                {"status": changes},
                group.namespace,
                subresource="status",
            )
        except ApiError as refusal:
            if not refusal.not_found:
                raise
        else:
            self._groups.wrote(written)  # and enqueued again, for the next phase


def next_status(group: PodGroup, pods: list[Pod]) -> PodGroupStatus:
    """The status after that of the group, one phase at a time."""
    status, least = group.status, group.min_count
    if not status.phase:
        return msgspec.structs.replace(status, phase="Pending")
    if status.phase == "Pending":
        if len(pods) < least:
            return status
        owners = {f"{pod.namespace}/{one.name}" for pod in pods for one in pod.metadata.owner_references}
        return msgspec.structs.replace(status, phase="Scheduling", occupied_by=",".join(sorted(owners)))
    phases = Counter(pod.status.phase for pod in pods)
    running, succeeded, failed = phases["Running"], phases["Succeeded"], phases["Failed"]
    if len(pods) < least:
        phase = "Pending"
    elif succeeded >= least:
        phase = "Finished"
    elif failed and failed + running + succeeded >= least:
        phase = "Failed"
    else:
        phase = "Running" if succeeded + running >= least else "Scheduling"
    return msgspec.structs.replace(status, phase=phase, running=running, succeeded=succeeded, failed=failed)


def _group_of(pod: Pod) -> tuple[str, ...]:
    name = pod.metadata.labels.get(POD_GROUP_LABEL)
    return (f"{pod.namespace}/{name}",) if name else ()
