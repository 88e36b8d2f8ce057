"""Groups that wait for room: how long they may before that is reported, and what happens then.

Nothing is held for a group that waits, so a timeout ends nothing: the group starts as soon as it can.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mooring.api.coscheduling import PodGroup as CoschedulingGroup
from mooring.api.counts import count
from mooring.api.meta import Condition
from mooring.api.times import go_duration
from mooring.core.effects import EmitEvent, Evict, PatchPodStatus
from mooring.core.groups.dialects import DIALECTS, QUORUM_PLUGINS, AnyPodGroup, group_args
from mooring.core.groups.members import GroupWait
from mooring.framework.pod import GroupKey, PodInfo
from mooring.plugins.args import CoschedulingArgs
from mooring.plugins.coscheduling import Coscheduling
from mooring.runtime.profile import Profile

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler


GATED_AFTER = 30.0  # seconds in which the pods of a group usually appear


class GroupWaits:
    """Keeps account of groups whose attempts fail, and of gangs that run in part."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._members = scheduler.members
        self._times: list[tuple[float, GroupKey]] = []  # a heap of when to look at which group
        self._gated: dict[GroupKey, float] = {}  # when to look whether all pods of a new group are there
        self._incomplete: dict[GroupKey, float] = {}  # since when a gang runs in part, for those reported

    def failed(self, profile: Profile, key: GroupKey, waits_for: frozenset[str]) -> None:
        """An attempt at a group failed, and events of these plugins retry it."""
        now = self._scheduler.clock()
        args = group_args(profile, key)
        wait = self._members.waits.get(key)
        if wait is None:
            wait = self._members.waits[key] = GroupWait(now, now)
            timeout = self._timeout(profile, key)
            if timeout is not None:
                heapq.heappush(self._times, (now + timeout, key))
            if args.reserve_after_seconds is not None:
                heapq.heappush(self._times, (now + args.reserve_after_seconds, key))
        backoff = args.pod_group_backoff_seconds if isinstance(args, CoschedulingArgs) else 0
        if now >= wait.last_failure + backoff:  # otherwise it was refused because it failed recently
            wait.last_failure = now
        wait.waits_for = waits_for
        if key in self._members.broken and key not in self._incomplete:
            self._report_incomplete(profile, key, now)

    def started(self, key: GroupKey) -> None:
        """A group has its quorum."""
        self._members.waits.pop(key, None)

    def tick(self, now: float) -> None:
        times = self._times
        while times and times[0][0] <= now:
            _, key = heapq.heappop(times)
            pods = [pod for pod in self._members.pods(key) if pod.scheduler_name in self._scheduler.profiles]
            if not pods:
                self._gated.pop(key, None)
            else:
                profile = self._scheduler.profiles[pods[0].scheduler_name]
                self._check_gated(profile, key, pods, now)
                self._check_timeout(profile, key, now)
                self._check_incomplete(profile, key, now)
                if self.has_starved(profile, key) and not self._members.waits[key].reserves:
                    self._members.waits[key].reserves = True  # by the attempt that follows
                    self._scheduler.queue.activate(pod for pod in pods if not pod.node_name)

    def has_starved(self, profile: Profile, key: GroupKey) -> bool:
        """Whether a group has waited for so long that nodes are kept for it."""
        after, wait = group_args(profile, key).reserve_after_seconds, self._members.waits.get(key)
        return wait is not None and after is not None and self._scheduler.clock() >= wait.since + after

    def next_time(self) -> float | None:
        return self._times[0][0] if self._times else None

    # ---- groups whose pods are not all there, or may not be scheduled yet

    def joined(self, key: GroupKey) -> None:
        """A pod that waits was added to a group."""
        if self._members.size(key) == 1:
            self._gated[key] = self._scheduler.clock() + GATED_AFTER
            heapq.heappush(self._times, (self._gated[key], key))

    def _check_gated(self, profile: Profile, key: GroupKey, pods: Sequence[PodInfo], now: float) -> None:
        """Report a group that has not been tried since its first pod appeared, once."""
        if now < self._gated.get(key, math.inf):
            return
        del self._gated[key]
        group = self._members.group(key)
        if group is None or key in self._members.waits or self._members.scheduled(key):
            return
        note = self._why_gated(profile, key, pods)
        if note:
            self._emit(group, key, "WaitingForPods", note, profile.scheduler_name, "Normal")

    def _why_gated(self, profile: Profile, key: GroupKey, pods: Sequence[PodInfo]) -> str:
        size, gated = len(pods), self._members.gated(key)
        minimum = max(self._members.minimum(key), 1)
        if size >= minimum > size - gated:
            return (
                f"{gated} of {count(size, 'pod')} have scheduling gates, and the group needs {minimum} pods"
            )
        refusals = [profile.pre_enqueue(pod) for pod in pods]
        refusal = next((each for each in refusals if not each.ok and each.plugin in QUORUM_PLUGINS), None)
        return "" if refusal is None else f"{refusal.message}: {size} of {minimum} pods exist"

    # ---- groups that wait for too long

    def _timeout(self, profile: Profile, key: GroupKey) -> float | None:
        """The seconds after which waiting is reported; None: never."""
        group, plugin = self._members.group(key), profile.plugins.get(Coscheduling.name)
        if not isinstance(group, CoschedulingGroup) or not isinstance(plugin, Coscheduling):
            return None
        return plugin.timeout(group)

    def _check_timeout(self, profile: Profile, key: GroupKey, now: float) -> None:
        wait, timeout = self._members.waits.get(key), self._timeout(profile, key)
        if wait is None or timeout is None or wait.reported:
            return
        if wait.since + timeout > now:  # it was extended meanwhile
            heapq.heappush(self._times, (wait.since + timeout, key))
            return
        wait.reported = True
        group = self._members.group(key)
        assert group is not None
        note = f"no places for {group.min_count} pods within {go_duration(timeout)}; waiting"
        self._emit(group, key, "ScheduleTimeout", note, profile.scheduler_name)
        for pod in self._members.pods(key):
            if self._scheduler.cluster.placed(pod.uid) is None:
                self._patch_timeout(pod, f"PodGroup {key}: {note}")

    def _patch_timeout(self, pod: PodInfo, note: str) -> None:
        current = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        message = f"{note}. {current.message}" if current is not None and current.message else note
        condition = Condition(
            type="PodScheduled",
            status="False",
            reason="Unschedulable",
            message=message,
            observed_generation=pod.pod.metadata.generation,
        )
        self._scheduler.effects.append(PatchPodStatus(pod, condition))

    # ---- gangs that run in part

    def _report_incomplete(self, profile: Profile, key: GroupKey, now: float) -> None:
        group = self._members.group(key)
        assert group is not None  # it is broken for its minimum
        self._incomplete[key] = now
        scheduled = self._members.scheduled(key)
        note = f"{scheduled} of at least {group.min_count} pods are scheduled, and there is no room for more"
        self._emit(group, key, "GangIncomplete", note, profile.scheduler_name)
        args = group_args(profile, key)
        if args.partial_gang == "Evict":
            heapq.heappush(self._times, (now + args.grace_seconds, key))

    def completed(self, key: GroupKey) -> None:
        """A gang no longer runs in part."""
        self._incomplete.pop(key, None)

    def _check_incomplete(self, profile: Profile, key: GroupKey, now: float) -> None:
        since, args = self._incomplete.get(key), group_args(profile, key)
        if since is None or args.partial_gang != "Evict" or now < since + args.grace_seconds:
            return
        del self._incomplete[key]
        condition = Condition(
            type="DisruptionTarget",
            status="True",
            reason="PreemptionByScheduler",
            message=f"{profile.scheduler_name}: the gang {key} runs with fewer pods than it needs",
        )
        pods = [pod for each in self._members.together(key) for pod in self._members.scheduled_pods(each)]
        for pod in pods:
            if not pod.terminating:
                self._scheduler.effects.append(Evict(pod, pod, condition))

    def _emit(
        self, group: AnyPodGroup, key: GroupKey, reason: str, note: str, profile: str, kind: str = "Warning"
    ) -> None:
        resource = DIALECTS[key.api_group].resource
        reference = group.reference(resource.kind, resource.api_version)
        event = EmitEvent(reference, kind, reason, "Scheduling", note, profile)
        self._scheduler.effects.append(event)
