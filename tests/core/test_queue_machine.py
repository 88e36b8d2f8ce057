"""Random operations on the queue against a model that only knows which pods are pending."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mooring.core.event_map import ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE, NODE_ADD
from mooring.core.queue import Place, QueuedPodInfo
from mooring.framework.events import ClusterEvent, Hint, requeue_on
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, unschedulable
from tests.core.queue_kit import NODE_ANNOTATION, NODE_TAINT, Bench, make_pod

NAMES = st.sampled_from("abcdef")
PLUGINS = ("Fit", "Affinity", "Gate", "Window", "Deaf")
EVENTS = (NODE_ADD, NODE_TAINT, NODE_ANNOTATION, ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE)
START = 1_700_000_000.375  # not on a whole second


class QueueMachine(RuleBasedStateMachine):
    """Pods are named a to f; a pod created anew has another UID."""

    def __init__(self) -> None:
        super().__init__()
        self.gates: dict[str, tuple[str, float | None]] = {}  # pod name → gating plugin, opening time
        self.welcome: set[str] = set()  # names of the pods that the hint of Affinity says Queue to
        event = {each.name: each for each in EVENTS}
        self.bench = Bench(
            now=START,
            pre_enqueue=self.pre_enqueue,
            hints={
                "Fit": [requeue_on(*key(event["NodeAdd"])), requeue_on(*key(event["AssignedPodDelete"]))],
                "Affinity": [
                    requeue_on(*key(event["AssignedPodAdd"]), self.hint),
                    requeue_on(*key(event["NodeAdd"]), self.hint),
                ],
                "Gate": [requeue_on(*key(event["AssignedPodAdd"]))],
                "Window": [],
            },
        )
        self.queue = self.bench.queue
        self.pending: dict[str, PodInfo] = {}  # in the queue, as the model has it
        self.flying: dict[str, QueuedPodInfo] = {}  # popped, by UID
        self.born = 0

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gate = self.gates.get(pod.name)
        return unschedulable("gated", not_before=gate[1]).by(gate[0]) if gate else None

    def hint(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        return Hint.QUEUE if pod.name in self.welcome else Hint.SKIP

    # ---- pods come, change and go

    def new_pod(self, name: str, priority: int) -> PodInfo:
        self.born += 1
        return make_pod(name, uid=f"{name}{self.born}", priority=priority)

    def alive(self, name: str) -> PodInfo | None:
        """The pod of that name that exists, wherever it is."""
        flying = (queued.pod for queued in self.flying.values() if queued.pod.name == name)
        return self.pending.get(name) or next(flying, None)

    @rule(name=NAMES, priority=st.integers(0, 2))
    def add(self, name: str, priority: int) -> None:
        if self.alive(name) is None:
            pod = self.pending[name] = self.new_pod(name, priority)
            self.queue.add(pod)

    @rule(name=NAMES, priority=st.integers(0, 2), tolerations=st.integers(0, 2))
    def update(self, name: str, priority: int, tolerations: int) -> None:
        old = self.alive(name)
        if old is not None:
            new = make_pod(name, uid=old.uid, priority=priority, tolerations=tolerations, nominated=name)
            self.queue.update(old, new)
            if name in self.pending:
                self.pending[name] = new

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        """A pod in flight that is deleted stays there until its attempt ends."""
        pod = self.alive(name)
        if pod is not None:
            self.queue.delete(pod)
            self.pending.pop(name, None)

    @rule(name=NAMES, priority=st.integers(0, 2), how=st.sampled_from(["in order", "update", "late"]))
    def recreate(self, name: str, priority: int, how: str) -> None:
        """Delete a pod and create another of that name; news of it may come in order, as one, or late."""
        old = self.alive(name)
        if old is None:
            return
        new = self.new_pod(name, priority)
        if how == "update":
            self.queue.update(old, new)
        elif how == "late":
            self.queue.add(new)
            self.queue.delete(old)
        else:
            self.queue.delete(old)
            self.queue.add(new)
        self.pending[name] = new

    # ---- attempts

    @rule()
    def pop(self) -> None:
        active = [queued for queued in self.queue if queued.place is Place.ACTIVE]
        early = [queued for queued in self.queue if queued.place is Place.BACKOFF]
        queued = self.queue.pop()
        if queued is None:
            assert not active
            assert not early
            return
        assert queued in (active or early), f"tried out of turn: {queued}"
        if active:
            first = min(active, key=lambda each: (-each.pod.priority, each.timestamp))
            assert (queued.pod.priority, queued.timestamp) == (first.pod.priority, first.timestamp)
        assert self.pending.pop(queued.pod.name) is queued.pod
        assert queued.pod.uid not in self.flying
        self.flying[queued.pod.uid] = queued

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.flying)))
        self.queue.done(uid)
        del self.flying[uid]

    @precondition(lambda self: self.flying)
    @rule(
        data=st.data(),
        refused=st.sets(st.sampled_from(PLUGINS), max_size=2),
        pending=st.sets(st.sampled_from(PLUGINS), max_size=1),
        wait=st.none() | st.floats(-1, 20),
    )
    def fail(self, data: st.DataObject, refused: set[str], pending: set[str], wait: float | None) -> None:
        queued = self.flying.pop(data.draw(st.sampled_from(sorted(self.flying))))
        queued.refused_by(refused, pending, None if wait is None else self.bench.now + wait)
        place = self.queue.add_unschedulable_if_not_present(queued, self.bench.now)
        if queued.pod.name in self.pending:
            assert place is None
        else:
            assert place is queued.place
            self.pending[queued.pod.name] = queued.pod

    # ---- the world

    @rule(event=st.sampled_from(EVENTS), limit=st.none() | st.integers(0, 2))
    def event(self, event: ClusterEvent, limit: int | None) -> None:
        before = {queued.pod.name: queued.place for queued in self.queue}
        predicate = None if limit is None else lambda pod: pod.priority <= limit
        self.queue.move_all(event, None, None, predicate)
        for queued in self.queue:
            if queued.place is not before[queued.pod.name]:
                assert before[queued.pod.name] is Place.UNSCHEDULABLE
                assert predicate is None or predicate(queued.pod)

    @rule(names=st.sets(NAMES))
    def activate(self, names: set[str]) -> None:
        pods = [pod for pod in map(self.alive, sorted(names)) if pod is not None]
        self.queue.activate(pods)
        for pod in pods:
            queued = self.queue.get(pod.key)
            assert queued is None or queued.place is Place.ACTIVE or pod.name in self.gates

    @rule(name=NAMES, plugin=st.sampled_from(["Gate", "Window"]), opens=st.none() | st.floats(-1, 40))
    def close_gate(self, name: str, plugin: str, opens: float | None) -> None:
        self.gates[name] = (plugin, None if opens is None else self.bench.now + opens)

    @rule(name=NAMES)
    def open_gate(self, name: str) -> None:
        self.gates.pop(name, None)

    @rule(names=st.sets(NAMES))
    def welcome_to_affinity(self, names: set[str]) -> None:
        self.welcome = names

    @rule(seconds=st.floats(0.001, 400))
    def wait(self, seconds: float) -> None:
        """Time passes; the driver sleeps exactly until there is something to do."""
        until = self.bench.now + seconds
        while (wake := self.queue.next_wake(self.bench.now)) is not None and wake <= until:
            assert wake > self.bench.now, "time would stand still"
            before = self.witness()
            self.bench.now = wake
            self.queue.flush(wake)
            assert self.witness() != before, f"woke up at {wake} for nothing"
        self.bench.now = until
        before = self.witness()
        self.queue.flush(until)
        assert self.witness() == before, "flush did something that next_wake had not announced"

    def witness(self) -> list[Any]:
        """All that flush may change."""
        return [
            (q.pod.uid, q.place, q.not_before, q.flush_timestamp, q.ticket, q.timeout_tick)
            for q in self.queue
        ]

    # ---- what always holds

    @invariant()
    def consistent(self) -> None:
        self.queue.validate()

    @invariant()
    def nobody_is_lost_or_doubled(self) -> None:
        assert {q.pod.name: q.pod.uid for q in self.queue} == {n: p.uid for n, p in self.pending.items()}
        assert {q.pod.uid for q in self.queue.in_flight()} == set(self.flying)
        assert sum(self.queue.counts().values()) == len(self.queue) == len(self.pending)

    @invariant()
    def next_wake_is_in_the_future(self) -> None:
        wake = self.queue.next_wake(self.bench.now)
        assert wake is None or self.bench.now < wake < math.inf
        waiting = any(q.place is not Place.ACTIVE for q in self.queue)
        assert (wake is not None) == waiting, "every pod that waits has a time at which it is looked at"

    def teardown(self) -> None:
        """Whatever happened, with the gates open every pending pod is tried again."""
        self.gates.clear()
        while (wake := self.queue.next_wake(self.bench.now)) is not None:
            assert wake > self.bench.now
            self.bench.now = wake
            self.queue.flush(wake)
            while self.queue.pop() is not None:
                pass
        while self.queue.pop() is not None:
            pass
        assert len(self.queue) == 0, f"never tried again: {list(self.queue)}"
        assert {q.pod.name for q in self.queue.in_flight()} >= set(self.pending)


def key(event: ClusterEvent) -> tuple[str, Any]:
    return event.resource, event.action


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
