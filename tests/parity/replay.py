"""Replaying a scenario of the corpus through Mooring's scheduler.

A scenario is a cluster, a configuration and pods to be tried in order. What kube-scheduler answered is kept
beside it; here the same attempts are made, and the state is carried from one to the next by the corpus'
rules: a placed pod stays, victims do not go, nothing reacts. Nodes are added in order of their names and
ties go to the first, which is how the corpus breaks them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from mooring.api.decode import from_dict
from mooring.api.objects import Node, Pod
from mooring.api.times import format_time, parse_time
from mooring.config import from_object
from mooring.core.decision import Decision
from mooring.core.effects import PatchPodStatus
from mooring.core.scheduler import Scheduler
from mooring.plugins.default_preemption.default_preemption import DefaultPreemption

START = parse_time("2030-01-01T00:00:00Z")


@dataclass
class Attempt:
    """One pod's attempt, with what it changed."""

    pod: Pod
    decision: Decision
    nominated_node: str | None
    cleared: list[str] = field(default_factory=list)


def first(_: int) -> int:
    return 0


class Replay:
    """One scenario in progress."""

    def __init__(self, scenario: dict[str, Any], reuse: bool = True) -> None:
        config = None
        if scenario.get("config") is not None:
            config = from_object(scenario["config"], source=scenario["id"])
        self.scheduler = Scheduler(config, clock=lambda: START, pick=first, reuse=reuse, record=True)
        self._try_every_node()
        self._pending: list[str] = scenario["pending"]
        self._waiting: dict[str, Pod] = {}
        self._load([from_dict(obj) for obj in scenario["objects"]])

    def _try_every_node(self) -> None:
        """The corpus' preemption looks at every node, whatever the arguments limit it to."""
        for profile in self.scheduler.profiles.values():
            plugin = profile.plugins.get(DefaultPreemption.name)
            if isinstance(plugin, DefaultPreemption):
                plugin.args.min_candidate_nodes_percentage = 100

    def _load(self, objects: list[Any]) -> None:
        pods = [obj for obj in objects if isinstance(obj, Pod)]
        nodes = sorted((obj for obj in objects if isinstance(obj, Node)), key=lambda node: node.name)
        for obj in (*nodes, *(o for o in objects if not isinstance(o, Pod | Node))):
            self.scheduler.apply(obj)
        for pod in pods:
            if pod.spec.node_name:
                self.scheduler.apply(pod)
            elif not pod.finished:
                self._waiting[pod.key] = pod
                if pod.status.nominated_node_name:
                    self._nominator.add(self.scheduler.cluster.info(pod))
        self.scheduler.take_effects()

    @property
    def _nominator(self) -> Any:
        return self.scheduler.queue.nominator

    def run(self) -> list[Attempt]:
        return [self._attempt(index, key) for index, key in enumerate(self._pending)]

    def _attempt(self, index: int, key: str) -> Attempt:
        pod = self._waiting.pop(key)
        self.scheduler.apply(pod)
        decision = self.scheduler.schedule_one()
        assert decision is not None
        assert decision.pod == key, f"the queue gave {decision.pod} instead of {key}"
        attempt = Attempt(pod, decision, None)
        for effect in self.scheduler.take_effects():
            if isinstance(effect, PatchPodStatus) and effect.pod.key != key:
                self._clear(effect.pod.key)
                attempt.cleared.append(effect.pod.key)
        if decision.node:
            spec = msgspec.structs.replace(pod.spec, node_name=decision.node)
            status = msgspec.structs.replace(pod.status, start_time=format_time(START + index))
            self.scheduler.apply(msgspec.structs.replace(pod, spec=spec, status=status))
            self.scheduler.take_effects()
        return attempt

    def _clear(self, key: str) -> None:
        pod = self._waiting.get(key)
        if pod is not None:
            status = msgspec.structs.replace(pod.status, nominated_node_name="")
            self._waiting[key] = msgspec.structs.replace(pod, status=status)
