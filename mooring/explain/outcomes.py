"""What became of each pod over a run of many attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from mooring.api.objects import Pod
from mooring.core.decision import Decision
from mooring.explain.text import why

SCHEDULED, PENDING, EVICTED = "scheduled", "pending", "evicted"


class Outcome(msgspec.Struct, rename="camel", omit_defaults=True):
    """One pod in the end: where it is, and why."""

    pod: str
    state: str
    why: str
    node: str | None = None


class Attempts:
    """The decisions of a run, by pod."""

    def __init__(self) -> None:
        self._by_pod: dict[str, list[Decision]] = {}
        self._evicted_for: dict[str, Decision] = {}

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

    def _evicted(self, pod: Pod) -> Outcome:
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
