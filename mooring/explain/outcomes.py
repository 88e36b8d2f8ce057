"""What became of each pod over a run of many attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from mooring.api.objects import Pod
from mooring.core.decision import Decision
from mooring.core.effects import Evict
from mooring.core.scheduler import Scheduler
from mooring.explain.groups import explain_group, summary
from mooring.explain.text import why

SCHEDULED, PENDING, EVICTED = "scheduled", "pending", "evicted"


class Outcome(msgspec.Struct, rename="camel", omit_defaults=True):
    """One pod in the end: where it is, and why."""

    pod: str
    state: str
    why: str
    node: str | None = None


class GroupOutcome(msgspec.Struct, rename="camel", omit_defaults=True):
    """One group in the end: how many of its pods have a node, and which others had to go for it."""

    group: str
    state: str
    scheduled: int
    pods: int
    why: str
    evicted: list[str] = []


class Attempts:
    """The decisions of a run, by pod."""

    def __init__(self) -> None:
        self._by_pod: dict[str, list[Decision]] = {}
        self._evicted_for: dict[str, Decision] = {}
        self._evicted_for_group: dict[str, Evict] = {}

    def add_evictions(self, evictions: Iterable[Evict]) -> None:
        """Note which pods had to go for a group as a whole; those for single pods are in the decisions."""
        self._evicted_for_group |= {
            each.victim.key: each for each in evictions if each.preemptor.group is not None
        }

    def add(self, decision: Decision) -> None:
        self._by_pod.setdefault(decision.pod, []).append(decision)
        if decision.post_filter is not None:
            for victim in decision.post_filter.victims:
                self._evicted_for[victim] = decision

    def all(self) -> list[Decision]:
        return [decision for decisions in self._by_pod.values() for decision in decisions]

    def of(self, pod: str) -> list[Decision]:
        """The attempts at a pod, by "namespace/name" or by name."""
        return [d for d in self.all() if pod in (d.pod, d.pod.partition("/")[2])]

    def outcomes(
        self, pods: Iterable[Pod], final: Mapping[str, Pod], untried: Mapping[str, str]
    ) -> list[Outcome]:
        """What became of the pods that were pending, and of those that had to go. `final` are the pods at
        the end by UID; `untried` says why a pod was never tried."""
        results = []
        for pod in pods:
            now = final.get(pod.uid)
            if now is None:
                results.append(self._evicted(pod))
            elif not pod.spec.node_name and not pod.finished:
                results.append(self._tried(pod, now.spec.node_name, untried))
        return results

    def groups(self, scheduler: Scheduler) -> list[GroupOutcome]:
        """What became of the groups that had pods to be scheduled."""
        results = []
        for key in sorted(scheduler.members.keys()):
            if not any(pod.key in self._by_pod or not pod.node_name for pod in scheduler.members.pods(key)):
                continue
            explanation = explain_group(scheduler, key)
            evicted = [
                victim for victim, each in self._evicted_for_group.items() if each.preemptor.group == key
            ]
            results.append(
                GroupOutcome(
                    str(key),
                    SCHEDULED if explanation.state == "scheduled" else PENDING,
                    explanation.scheduled,
                    explanation.pods,
                    summary(explanation).removeprefix(f"is {explanation.state}: "),
                    evicted,
                )
            )
        return results

    def _evicted(self, pod: Pod) -> Outcome:
        evicted = self._evicted_for_group.get(pod.key)
        if evicted is not None:
            node, group = evicted.victim.node_name, evicted.preemptor.group
            return Outcome(pod.key, EVICTED, f"from {node}, to make room for podgroup {group}")
        cause = self._evicted_for.get(pod.key)
        if cause is None or cause.post_filter is None:
            return Outcome(pod.key, EVICTED, "deleted")
        return Outcome(
            pod.key, EVICTED, f"from {cause.post_filter.nominated_node}, to make room for {cause.pod}"
        )

    def _tried(self, pod: Pod, node: str, untried: Mapping[str, str]) -> Outcome:
        decisions = self._by_pod.get(pod.key)
        state = SCHEDULED if node else PENDING
        if not decisions:
            return Outcome(pod.key, state, untried.get(pod.key, "not tried"), node or None)
        reasons = [why(decisions[-1])]
        for decision in decisions[:-1]:
            if decision.post_filter is not None and decision.post_filter.victims:
                reasons.insert(0, why(decision))
        return Outcome(pod.key, state, "; then ".join(reasons), node or None)
