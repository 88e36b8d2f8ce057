"""GangScheduling: members of a gang start together, minCount of them or none."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.api.groups import PodGroup
from mooring.framework.cycle_state import CycleState
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.plugin import Plugin
from mooring.framework.pod import SCHEDULING_GROUP, GroupKey, PodInfo
from mooring.framework.status import Status, error, unresolvable, wait
from mooring.plugins.args import GangSchedulingArgs
from mooring.runtime.engine_handle import EngineHandle

PERMIT_TIMEOUT = 300.0


class GangScheduling(Plugin[GangSchedulingArgs]):
    """Holds members back until minCount of them exist, and until minCount of them have a place.

    A group is planned as a whole, so no member waits in permit while others are looked at: `permit` only
    says whether the quorum is reached with this member.
    """

    name = "GangScheduling"
    handle: EngineHandle

    TOO_FEW = unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
    WAITING = wait(PERMIT_TIMEOUT, "waiting for minCount pods from a gang to be scheduled")

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        key = pod.group
        if key is None or key.api_group != SCHEDULING_GROUP:
            return None
        group = self.handle.listers.get(PodGroup, key.name, key.namespace)
        if group is None:
            return unresolvable(f'waiting for pods\'s pod group "{key.name}" to appear in scheduling queue')
        if group.min_count is None or self.handle.groups.size(key) >= group.min_count:
            return None
        return self.TOO_FEW

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        key = pod.group
        if key is None or key.api_group != SCHEDULING_GROUP:
            return None
        group = self.handle.listers.get(PodGroup, key.name, key.namespace)
        if group is None:
            missing = f'podgroup.scheduling.k8s.io "{key.name}" not found'
            return error(f"failed to get podGroup {key}: {missing}")
        if group.min_count is None or self.handle.groups.scheduled(key) >= group.min_count:
            return None
        return self.WAITING

    def events_to_register(self) -> Iterable[EventHint]:
        yield requeue_on(Resource.POD, Action.ADD, self._after_pod_added)
        yield requeue_on(Resource.POD_GROUP, Action.ADD | Action.UPDATE, self._after_group_changed)

    def _after_pod_added(self, pod: PodInfo, old: PodInfo | None, new: PodInfo) -> Hint:
        if pod.group is None or new.group != pod.group:
            return Hint.SKIP
        if new.node_name and self._has_quorum(pod.group):  # one more that runs helps no other
            return Hint.SKIP
        # As long as members are missing, pre_enqueue would refuse each of the others after each new one.
        return Hint.SKIP if self.pre_enqueue(pod) is not None else Hint.QUEUE

    def _has_quorum(self, key: GroupKey) -> bool:
        group = self.handle.listers.get(PodGroup, key.name, key.namespace)
        return group is not None and self.handle.groups.scheduled(key) >= (group.min_count or 0)

    def _after_group_changed(self, pod: PodInfo, old: PodGroup | None, new: PodGroup) -> Hint:
        """A new group, or one whose spec changed: its status is written by this scheduler."""
        mine = pod.group == GroupKey(new.namespace, new.name)
        return Hint.QUEUE if mine and (old is None or old.spec != new.spec) else Hint.SKIP
