"""A scheduler over a cluster in memory, and the things that can happen to it.

Two worlds to which the same happens must make the same decisions; what differs between them is what a test
is about. Events name pods by number, so that any sequence of them makes sense.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from mooring.api.decode import from_dict
from mooring.api.meta import KubeObject
from mooring.api.objects import ContainerStatus, Node, Pod, ResourceRequirements
from mooring.api.times import format_time
from mooring.config import LoadedConfig
from mooring.core.decision import Decision
from mooring.core.effects import Bind, Effect, Evict
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from tests.state.objects import HOST
from tests.state.objects import node as make_node
from tests.state.objects import pod as make_pod

START = 1_900_000_000.25


class Rules(NamedTuple):
    """How a world works, besides what happens in it."""

    config: LoadedConfig | None = None
    plugins: Sequence[type[Plugin]] = ()
    seed: int = 0
    graceful: bool = False  # victims of preemption stay, terminating, until they are deleted
    late: bool = False  # bindings are carried out when the event "settle" says so


class Event(NamedTuple):
    """Something that happens, what the arguments are depends on the kind; then, so many attempts at pods."""

    kind: str
    args: tuple[Any, ...] = ()
    attempts: int = 12


class TestCluster(MemoryCluster):
    """The API server's part, which may be slow to delete and to bind, and may fail to bind."""

    __test__ = False

    def __init__(self, scheduler: Scheduler, rules: Rules, now: Callable[[], float]) -> None:
        super().__init__(scheduler)
        self._rules = rules
        self._now = now
        self.refusing = 0  # so many of the next bindings fail
        self.held: list[Bind] = []
        self.effects: list[Effect] = []
        self.bound: list[tuple[str, str]] = []  # uid, node: every binding ever carried out

    def carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self.effects.append(effect)
            if self._rules.late and isinstance(effect, Bind):
                self.held.append(effect)
            elif self._rules.graceful and isinstance(effect, Evict):
                self._terminate(effect)
            else:
                super().carry_out([effect])
        if self.scheduler.effects:
            self.carry_out(self.scheduler.take_effects())

    def settle(self) -> None:
        """Carry out the bindings that were held back."""
        held, self.held = self.held, []
        super().carry_out(held)

    def _terminate(self, effect: Evict) -> None:
        victim = self.pods.get(effect.victim.uid)
        if victim is not None:
            conditions = [*victim.status.conditions, effect.condition]
            status = msgspec.structs.replace(victim.status, conditions=conditions)
            self.apply(deleted(msgspec.structs.replace(victim, status=status), self._now()))

    def bind(self, pod: PodInfo, node_name: str) -> None:
        if self.refusing:
            self.refusing -= 1
            raise ConnectionError("the API server is not there")
        current = self.pods.get(pod.uid)
        if current is not None and current.spec.node_name:
            raise RuntimeError(f"pod {pod.name} is already assigned to node {current.spec.node_name}")
        super().bind(pod, node_name)
        self.bound.append((pod.uid, node_name))


def deleted(pod: Pod, now: float) -> Pod:
    """The pod while it terminates."""
    meta = msgspec.structs.replace(pod.metadata, deletion_timestamp=format_time(now))
    return msgspec.structs.replace(pod, metadata=meta)


class World:
    """A scheduler, its cluster and its clock."""

    def __init__(
        self, rules: Rules, *, templates: Sequence[Mapping[str, Any]] = (), reuse: bool = True
    ) -> None:
        self.now = START
        self.random = random.Random(rules.seed)
        self.scheduler = Scheduler(
            rules.config,
            clock=lambda: self.now,
            pick=self.random.randrange,
            plugins=rules.plugins,
            reuse=reuse,
            record=True,
        )
        self.cluster = TestCluster(self.scheduler, rules, lambda: self.now)
        self.templates = templates
        self.things: dict[tuple[str, str], KubeObject] = {}
        self.nodes: dict[str, Node] = {}
        self.born = 0
        self.decisions: list[Decision] = []

    def happen(self, event: Event) -> list[Decision]:
        """Let something happen, and everything that follows from it at once."""
        made: list[Decision] = []
        getattr(self, f"_{event.kind}")(*event.args)
        self.cluster.carry_out(self.scheduler.take_effects())
        self.cluster.run(made.append, event.attempts)
        self.scheduler.queue.validate()
        self.decisions += made
        return made

    def add(self, *objects: KubeObject) -> None:
        """Objects come or change, and nothing is tried yet."""
        for obj in objects:
            self.cluster.apply(obj)
        self.cluster.carry_out(self.scheduler.take_effects())

    def remove(self, *objects: KubeObject) -> None:
        for obj in objects:
            self.cluster.delete(obj)
        self.cluster.carry_out(self.scheduler.take_effects())

    def run(self) -> list[Decision]:
        """Try pods until there is none left to try now."""
        made: list[Decision] = []
        self.cluster.run(made.append, limit=1000)
        assert len(made) < 1000, "the same pods are tried again and again"
        self.scheduler.queue.validate()
        self.decisions += made
        return made

    def wait(self, seconds: float) -> list[Decision]:
        """Time passes, then pods are tried."""
        self._tick(seconds)
        self.cluster.carry_out(self.scheduler.take_effects())
        return self.run()

    def pod(self, name: str, namespace: str = "default") -> Pod:
        """A pod as the API server has it."""
        key = f"{namespace}/{name}"
        return next(pod for pod in self.cluster.pods.values() if pod.key == key)

    def nodes_of(self, *names: str) -> list[str]:
        """Where pods are bound; "" for those that are not."""
        return [self.pod(name).spec.node_name for name in names]

    def notes(self, reason: str) -> list[str]:
        """The notes of all events with a reason."""
        return [event.note for event in self.cluster.events if event.reason == reason]

    def attempt(self) -> Decision | None:
        """One attempt, carried out."""
        made: list[Decision] = []
        self.cluster.run(made.append, 1)
        self.decisions += made
        return made[0] if made else None

    # ---- nodes and objects

    def _node(self, fields: Mapping[str, Any]) -> None:
        node = self.nodes[fields["name"]] = make_node(**fields)
        self.cluster.apply(node)

    def _herd(self, fields: Mapping[str, Any], count: int) -> None:
        """Many nodes of a kind."""
        for i in range(count):
            name = f"{fields['name']}-{i}"
            labels = {**fields["labels"], HOST: name}
            self._node({**fields, "name": name, "labels": labels})

    def _gone(self, number: int) -> None:
        if self.nodes:
            node = self.nodes.pop(sorted(self.nodes)[number % len(self.nodes)])
            self.cluster.delete(node)

    def _thing(self, manifest: dict[str, Any]) -> None:
        obj = from_dict(manifest)
        self.things[obj.kind, obj.key] = obj
        self.cluster.apply(obj)

    def _no_thing(self, number: int) -> None:
        if self.things:
            obj = self.things.pop(sorted(self.things)[number % len(self.things)])
            self.cluster.delete(obj)

    # ---- pods come and go

    def _pods(self, template: int, count: int) -> None:
        for _ in range(count):
            self.cluster.apply(self._make(template))

    def _placed(self, template: int, node_name: str) -> None:
        self.cluster.apply(self._make(template, on=node_name))

    def _crowd(self, template: int) -> None:
        """Every node gets a pod that leaves little room and need not stay."""
        for name in list(self.nodes):
            self.cluster.apply(self._make(template, on=name, requests={"cpu": "2"}, priority=-1))

    def _urgent(self, template: int) -> None:
        """A pod comes for which others may have to go."""
        self.cluster.apply(self._make(template, priority=1000))

    def _make(self, template: int, **more: Any) -> Pod:
        self.born += 1
        fields = {**self.templates[template % len(self.templates)], **more}
        return make_pod(f"p{self.born}", **fields)

    def _chosen(self, number: int, wanted: Callable[[Pod], bool] = lambda pod: True) -> Pod | None:
        found = [pod for pod in self.cluster.pods.values() if wanted(pod)]
        return found[number % len(found)] if found else None

    def _delete(self, number: int) -> None:
        pod = self._chosen(number)
        if pod is not None:
            self.cluster.delete(pod)

    def _recreate(self, number: int) -> None:
        """A pod is deleted and made anew under its name."""
        pod = self._chosen(number, _pending)
        if pod is not None:
            self.cluster.delete(pod)
            meta = msgspec.structs.replace(pod.metadata, uid=pod.uid + "+")
            self.cluster.apply(msgspec.structs.replace(pod, metadata=meta))

    def _terminate(self, number: int) -> None:
        pod = self._chosen(number)
        if pod is not None:
            self.cluster.apply(deleted(pod, self.now))

    def _finish(self, number: int) -> None:
        pod = self._chosen(number, _assigned)
        if pod is not None:
            self._with_status(pod, phase="Succeeded")
            self.cluster.pods.pop(pod.uid, None)

    # ---- pods change

    def _relabel(self, number: int, labels: dict[str, str]) -> None:
        pod = self._chosen(number)
        if pod is not None:
            meta = msgspec.structs.replace(pod.metadata, labels=labels)
            self.cluster.apply(msgspec.structs.replace(pod, metadata=meta))

    def _resize(self, number: int, cpu: str) -> None:
        """A running pod is given other resources than it asks for."""
        pod = self._chosen(number, _assigned)
        if pod is not None:
            given = ResourceRequirements(requests={"cpu": cpu})
            self._with_status(pod, container_statuses=[ContainerStatus(name="main", resources=given)])

    def _start(self, number: int) -> None:
        pod = self._chosen(number, _assigned)
        if pod is not None:
            self._with_status(pod, start_time=format_time(self.now))

    def _nominate(self, number: int, node_name: str) -> None:
        pod = self._chosen(number, _pending)
        if pod is not None:
            self._with_status(pod, nominated_node_name=node_name)

    def _ungate(self, number: int) -> None:
        pod = self._chosen(number, lambda pod: bool(pod.spec.scheduling_gates))
        if pod is not None:
            self._with_spec(pod, scheduling_gates=[])

    def _bound_elsewhere(self, number: int, node_name: str) -> None:
        """Someone else binds a pod that is pending, or being bound by us."""
        pod = self._chosen(number, _pending)
        if pod is not None:
            self._with_spec(pod, node_name=node_name)

    def _with_status(self, pod: Pod, **changes: Any) -> None:
        self.cluster.apply(
            msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, **changes))
        )

    def _with_spec(self, pod: Pod, **changes: Any) -> None:
        self.cluster.apply(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **changes)))

    # ---- time and the API server

    def _tick(self, seconds: float) -> None:
        self.now += seconds
        self.scheduler.tick()

    def _refuse(self, bindings: int) -> None:
        self.cluster.refusing = bindings

    def _settle(self) -> None:
        self.cluster.settle()


def _pending(pod: Pod) -> bool:
    return not pod.spec.node_name


def _assigned(pod: Pod) -> bool:
    return bool(pod.spec.node_name)
