"""Evicting the victims of preemption, and which preemptors still wait for theirs to leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mooring.api.meta import Condition
from mooring.core.effects import EmitEvent, Evict, PatchPodStatus
from mooring.core.groups.dialects import AnyPodGroup
from mooring.framework.plugin import PostFilterResult
from mooring.framework.pod import PodInfo

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler


class Evictions:
    """Victims that are on their way out, by preemptor."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.preempting: dict[str, set[str]] = {}  # preemptor uid → uids of victims still to be evicted
        self._preempting_since: dict[str, float] = {}

    def preempt(self, pod: PodInfo, result: PostFilterResult) -> None:
        """Evict the victims, and take the promise of this node from pods of lower priority."""
        victims = [victim for victim in result.victims if not victim.terminating]
        if not victims:
            return
        node_name = result.nominated_node or ""
        self._withdraw_promises(node_name, pod.priority)
        if self._scheduler.observer is not None:
            self._scheduler.observer.victims_selected(len(result.victims))
        self._evict(pod, victims, pod.uid, "pod", f"pod {pod.uid} on node {node_name}")

    def _withdraw_promises(self, node_name: str, priority: int) -> None:
        """Take the promise of a node from pods of lower priority."""
        for other in list(self._scheduler.queue.nominator.nominated_for(node_name)):
            if other.priority < priority:
                self._scheduler.queue.nominator.add(other, "")
                self._scheduler.effects.append(PatchPodStatus(other, None, ""))

    def preempt_for_group(
        self,
        group: AnyPodGroup,
        pods: Sequence[PodInfo],
        chosen: Sequence[PodInfo],
        nodes: Mapping[str, str] | None,
    ) -> None:
        """Evict the victims of a group's preemption; its members are gated meanwhile, and `nodes` kept for
        them."""
        for pod in pods if nodes is not None else ():
            node_name = nodes.get(pod.uid) if nodes else None
            if node_name:
                self._withdraw_promises(node_name, pod.priority)
        victims = [victim for victim in chosen if not victim.terminating]
        if victims:
            if self._scheduler.observer is not None:
                self._scheduler.observer.victims_selected(len(chosen))
            self._evict(pods[0], victims, group.uid, "podgroup", f"podgroup {group.uid} on node cluster")

    def _evict(
        self, pod: PodInfo, victims: Sequence[PodInfo], preemptor: str, kind: str, description: str
    ) -> None:
        """Evict the victims of a preemptor, which is known by its uid until they are gone."""
        self.preempting[preemptor] = {victim.uid for victim in victims}
        if self._scheduler.observer is not None:
            self._preempting_since[preemptor] = self._scheduler.observer.timer()
        condition = Condition(
            type="DisruptionTarget",
            status="True",
            reason="PreemptionByScheduler",
            message=f"{pod.scheduler_name}: preempting to accommodate a higher priority {kind}",
        )
        note = f"Preempted by {description}"
        for victim in victims:
            held = self._scheduler.waiting.get(victim.uid)
            if held is not None:
                self.done(victim.uid)
                held.fail("preempted")
                event = _preempted(pod, victim, f"{note} (in kube-scheduler memory).")
                self._scheduler.effects.append(event)
            else:
                event = _preempted(pod, victim, note)
                self._scheduler.effects.append(Evict(victim, pod, condition, event))

    def done(self, victim_uid: str) -> None:
        """A victim is gone or going; its preemptors wait for one fewer."""
        for uid, victims in list(self.preempting.items()):
            victims.discard(victim_uid)
            if not victims:
                self.ended(uid, "success")

    def ended(self, uid: str, result: str) -> None:
        """A preemptor waits for its victims no longer: "success", "error", or "" where it is itself gone."""
        self.preempting.pop(uid, None)
        began = self._preempting_since.pop(uid, None)
        if began is not None and self._scheduler.observer is not None and result:
            self._scheduler.observer.preemption_ended(result, self._scheduler.observer.timer() - began)

    def failed(self, preemptor: PodInfo) -> None:
        """A driver could not evict: the preemptor tries again."""
        group = None if preemptor.group is None else self._scheduler.members.group(preemptor.group)
        by_group = group is not None and group.uid in self.preempting
        self.ended(group.uid if group is not None and by_group else preemptor.uid, "error")
        self._scheduler.queue.activate([preemptor])


def _preempted(pod: PodInfo, victim: PodInfo, note: str) -> EmitEvent:
    return EmitEvent(victim, "Normal", "Preempted", "Preempting", note, pod.scheduler_name)
