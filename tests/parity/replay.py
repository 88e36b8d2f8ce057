"""Replaying a scenario of the corpus through Mooring's scheduler.

A scenario is a cluster, a configuration and pods to be tried in order. What kube-scheduler answered is kept
beside it; here the same attempts are made, and the state is carried from one to the next by the corpus'
rules: a placed pod stays, victims do not go, nothing reacts. Nodes are added in order of their names and
ties go to the first, which is how the corpus breaks them.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mooring.api.decode import from_dict
from mooring.api.objects import Node, Pod
from mooring.api.times import format_time, parse_time
from mooring.config import from_object
from mooring.core.binding import BindingCycle
from mooring.core.build import registry_with
from mooring.core.decision import Decision
from mooring.core.effects import Bind, PatchPodStatus, Write
from mooring.core.memory import run_now
from mooring.core.scheduler import Scheduler
from mooring.framework.status import Status, error
from mooring.plugins.default_preemption.default_preemption import DefaultPreemption
from tests.parity.claims import ApiServer, RecordedResources, changed, describe

START = parse_time("2030-01-01T00:00:00Z")


@dataclass
class Attempt:
    """One pod's attempt, with what it changed."""

    pod: Pod
    decision: Decision
    nominated_node: str | None
    cleared: list[str] = field(default_factory=list)
    pre_enqueue: Status | None = None
    failed: Status | None = None  # in PreBind
    allocations: dict[str, list[list[str]]] = field(default_factory=dict)  # by node: devices of each claim
    claims: list[Any] = field(default_factory=list)  # after the attempt
    deallocated: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)  # for deallocation
    mappings: list[Any] = field(default_factory=list)  # in the pod's extendedResourceClaimStatus


def first(_: int) -> int:
    return 0


class Replay:
    """One scenario in progress."""

    def __init__(self, scenario: dict[str, Any], reuse: bool = True) -> None:
        config = None
        if scenario.get("config") is not None:
            config = from_object(scenario["config"], source=scenario["id"])
        registry = registry_with()
        registry[RecordedResources.name] = RecordedResources
        self.scheduler = Scheduler(
            config, clock=lambda: START, pick=first, registry=registry, reuse=reuse, record=True
        )
        self._server = ApiServer(self.scheduler)
        self._pre_enqueues = {name: p.pre_enqueue for name, p in self.scheduler.profiles.items()}
        self.scheduler.queue._pre_enqueue.clear()  # the corpus tries pods that would be gated
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
            self._server.apply(obj)
        for pod in pods:
            if pod.spec.node_name:
                self._server.apply(pod)
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
        before = self._server.claims()
        pre_enqueue = self._pre_enqueues[pod.spec.scheduler_name](self.scheduler.cluster.info(pod))
        self._server.apply(pod)
        decision = self.scheduler.schedule_one()
        assert decision is not None
        assert decision.pod == key, f"the queue gave {decision.pod} instead of {key}"
        plugin = self.scheduler.profiles[decision.profile].plugins[RecordedResources.name]
        assert isinstance(plugin, RecordedResources)
        attempt = Attempt(pod, decision, None, pre_enqueue=None if pre_enqueue.ok else pre_enqueue)
        attempt.allocations = plugin.node_allocations(decision.feasible)
        attempt.candidates = list(plugin.candidates)
        for effect in self.scheduler.take_effects():
            if isinstance(effect, PatchPodStatus) and effect.pod.key != key:
                self._clear(effect.pod.key)
                attempt.cleared.append(effect.pod.key)
            elif isinstance(effect, Bind):
                attempt.failed = self._pre_bind(effect.cycle, plugin)
            elif isinstance(effect, Write):
                self._server.carry_out([effect])
        self._server.carry_out(e for e in self.scheduler.take_effects() if isinstance(e, Write))
        after = self._server.claims()
        attempt.deallocated, attempt.deleted = changed(before, after)
        attempt.claims = describe(pod, before, after)
        special = self._server.pods[pod.uid].status.extended_resource_claim_status
        attempt.mappings = [] if special is None else msgspec.to_builtins(special.request_mappings)
        if decision.node and attempt.failed is None:
            spec = msgspec.structs.replace(pod.spec, node_name=decision.node)
            status = msgspec.structs.replace(pod.status, start_time=format_time(START + index))
            self._server.apply(msgspec.structs.replace(pod, spec=spec, status=status))
            self.scheduler.take_effects()
        return attempt

    def _pre_bind(self, cycle: BindingCycle, plugin: RecordedResources) -> Status | None:
        """Have the claims written, which is the only PreBind that the corpus runs."""
        answer: Any = plugin.pre_bind(cycle.state, cycle.pod, cycle.node_name)
        status: Status | None = run_now(answer) if isinstance(answer, Coroutine) else answer
        if status is None:
            return None
        failed = error(f'running PreBind plugin "{plugin.name}": {status.message}')
        self.scheduler.bindings.finished(cycle, failed)
        return failed

    def _clear(self, key: str) -> None:
        pod = self._waiting.get(key)
        if pod is not None:
            status = msgspec.structs.replace(pod.status, nominated_node_name="")
            self._waiting[key] = msgspec.structs.replace(pod, status=status)
