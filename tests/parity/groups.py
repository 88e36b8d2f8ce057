"""Replaying scenarios of pod groups: steps of changes, each followed by one attempt for all that wait.

What kube-scheduler does by itself between attempts plays no role in the corpus: events and backoff are
switched off here, and a step makes every waiting pod active; gangs that run in part wait their turn. Two
things are imitated: what is created lets in pods that pre_enqueue kept out, even if it is gone at the end of
the step, and members that wait in permit during kube-scheduler's commit activate siblings that failed before
them in the same cycle.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mooring.api.decode import KINDS, from_dict
from mooring.api.groups import PodGroup
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.config import from_object
from mooring.core.build import registry_with
from mooring.core.decision import Decision
from mooring.core.effects import Evict
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from tests.parity.compare import Difference, differ
from tests.parity.replay import START, first
from tests.parity.siblings import HiddenTerms

POD_FIELDS = (
    "result",
    "node",
    "best",
    "feasible",
    "reason",
    "message",
    "nominated",
    "gatedBy",
    "unschedulablePlugins",
)


@dataclass
class StepResult:
    """What a step came to, in the corpus' form."""

    attempts: list[dict[str, Any]] = field(default_factory=list)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, dict[str, str]] = field(default_factory=dict)
    victims: list[str] = field(default_factory=list)


class GroupReplay:
    """One scenario in progress."""

    def __init__(self, scenario: dict[str, Any], reuse: bool = True) -> None:
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "featureGates": dict.fromkeys(scenario["gates"], True),
            "profiles": [
                {
                    # The corpus has SchedulerAsyncPreemption off.
                    "plugins": {"preEnqueue": {"disabled": [{"name": "DefaultPreemption"}]}},
                    "pluginConfig": [
                        {
                            "name": "GangScheduling",
                            "args": {
                                "evictForUnschedulableGroups": True,
                                "groupPreemption": "KubeScheduler",
                                "groupRetry": "Backoff",
                                "planningSteps": 0,
                            },
                        },
                        {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 100}},
                    ],
                }
            ],
        }
        ticks = itertools.count()
        self.scheduler = Scheduler(
            from_object(config, source=scenario["id"]),
            clock=lambda: START + next(ticks) * 0.001,
            pick=first,
            registry=registry_with(),
            reuse=reuse,
            record=True,
        )
        self.scheduler.members.check = lambda group: False  # type: ignore[method-assign]
        self.cluster = MemoryCluster(self.scheduler)
        self._hidden_terms = HiddenTerms(self.scheduler.cluster)
        self._steps = scenario["steps"]
        self._created: dict[str, Pod] = {}
        self._latest: dict[str, Decision] = {}
        self._objects: dict[tuple[str, str], KubeObject] = {}
        objects = [from_dict(obj) for obj in scenario["objects"]]
        nodes = sorted((obj for obj in objects if isinstance(obj, Node)), key=lambda node: node.name)
        for obj in (*nodes, *(o for o in objects if not isinstance(o, Node))):
            self._apply(obj)
        self.scheduler.queue.move_all = lambda *args, **kwargs: None  # type: ignore[method-assign]

    def run(self) -> list[StepResult]:
        return [self._step(step) for step in self._steps]

    def _apply(self, obj: KubeObject) -> None:
        self._objects[type(obj).__name__, obj.key] = obj
        self.cluster.apply(obj)

    def _step(self, step: dict[str, Any]) -> StepResult:
        for action in step.get("actions") or ():
            self._act(action)
        result = StepResult()
        queue = self.scheduler.queue
        queue.activate([queued.pod for queued in sorted(queue, key=lambda q: q.timestamp)])
        while queue.counts()["active"]:
            self._attempt(result)
        for key in self._created:
            result.pods[key] = self._describe(key)
        for group in self.scheduler.store.list(PodGroup):
            for c in group.status.conditions:
                if c.type == "PodGroupScheduled":
                    result.groups[group.key] = {"status": c.status, "reason": c.reason, "message": c.message}
        result.victims.sort()
        return result

    def _act(self, action: dict[str, Any]) -> None:
        if "delete" in action:
            named = action["delete"]
            key = f"{named['namespace']}/{named['name']}" if named.get("namespace") else named["name"]
            model = KINDS[named["kind"]].model.__name__
            obj = self._objects.pop((model, key))
            if isinstance(obj, Pod):
                obj = self.cluster.pods.get(obj.uid, obj)
            self.cluster.delete(obj)
            return
        obj = from_dict(action.get("create") or action["update"])
        if "create" in action and isinstance(obj, Pod):
            self._created[obj.key] = obj
        self._apply(obj)
        queue = self.scheduler.queue
        queue.activate([queued.pod for queued in list(queue) if queued.gated])

    def _attempt(self, result: StepResult) -> None:
        scheduler = self.scheduler
        self._hidden_terms.start_attempt()
        decision = scheduler.schedule_one()
        assert decision is not None
        decisions = [decision]
        while scheduler._decided:
            other = scheduler.schedule_one()
            assert other is not None
            decisions.append(other)
        pod = self._created[decision.pod]
        attempt: dict[str, Any] = {"pods": [each.pod for each in decisions]}
        group = pod.spec.scheduling_group
        if group is not None:
            attempt["group"] = f"{pod.namespace}/{group.pod_group_name}"
            self._activate_leftovers(attempt["group"], decisions)
        result.attempts.append(attempt)
        self._latest.update({each.pod: each for each in decisions})
        effects = scheduler.take_effects()
        evicted = {effect.victim.key for effect in effects if isinstance(effect, Evict)}
        result.victims += sorted(evicted - set(result.victims))
        self.cluster.carry_out(effects)

    def _activate_leftovers(self, key: str, decisions: list[Decision]) -> None:
        scheduler = self.scheduler
        if "GangScheduling" not in next(iter(scheduler.profiles.values())).plugins:
            return
        namespace, _, name = key.partition("/")
        group = scheduler.store.get(PodGroup, name, namespace)
        placed = [each for each in decisions if each.result == "scheduled"]
        if group is None or group.min_count is None or not placed:
            return
        info = scheduler.cluster.info(self._created[decisions[0].pod])
        assert info.group is not None
        count = scheduler.members.scheduled(info.group) - len(placed)
        failed: list[Decision] = []
        for decision in decisions:
            if decision.result != "scheduled":
                failed.append(decision)
                continue
            count += 1
            if count < group.min_count:
                queued = [scheduler.queue.get(each.pod) for each in failed]
                scheduler.queue.activate([each.pod for each in queued if each is not None])

    def _describe(self, key: str) -> dict[str, Any]:
        created = self._created[key]
        pod = self.cluster.pods.get(created.uid)
        if pod is None:
            return {"result": "gone"}
        decision = self._latest.get(key)
        if pod.spec.node_name:
            if decision is None:
                return {"result": "scheduled", "node": pod.spec.node_name}
            return {
                "result": "scheduled",
                "node": pod.spec.node_name,
                "best": decision.best,
                # kube-scheduler looks no further than the node that the pod was nominated to.
                "feasible": decision.best if decision.nominated else decision.feasible,
            }
        queued = self.scheduler.queue.get(key)
        state: dict[str, Any] = {"result": "pending"}
        condition = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        if condition is not None and decision is not None:
            state = {"result": "unschedulable", "reason": condition.reason, "message": condition.message}
            gating = {queued.gating_plugin} if queued is not None and queued.gating_plugin else set()
            state["unschedulablePlugins"] = sorted({*decision.unschedulable_plugins, *gating})
        if pod.status.nominated_node_name:
            state["nominated"] = pod.status.nominated_node_name
        if queued is not None and queued.gating_plugin:
            state["gatedBy"] = queued.gating_plugin
        return state


def compare_step(expected: dict[str, Any], result: StepResult) -> Iterator[tuple[str, list[Difference]]]:
    """The step as a whole, then each pod: every difference."""
    attempts = [{k: v for k, v in a.items() if v} for a in expected.get("attempts") or ()]
    wrong = list(differ("attempts", attempts, result.attempts))
    wrong += differ("groups", expected.get("groups") or {}, result.groups)
    wrong += differ("victims", expected.get("victims") or [], result.victims)
    yield "", wrong
    for key, wanted in (expected.get("pods") or {}).items():
        state = result.pods.get(key, {"result": "absent"})
        yield (
            key,
            [
                difference
                for name in POD_FIELDS
                for difference in differ(name, wanted.get(name) or None, state.get(name) or None)
            ],
        )
