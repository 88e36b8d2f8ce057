"""Attempts by example: who is tried when, what is said about it, and what bad input does not break."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar

import pytest

from mooring.api.errors import MalformedObject
from mooring.api.events import truncate_note
from mooring.api.meta import KubeObject
from mooring.config import from_object
from mooring.core.effects import EmitEvent
from mooring.core.queue import Place
from mooring.core.scheduler import Scheduler
from mooring.framework import (
    CycleState,
    EventHint,
    NodeInfo,
    Plugin,
    PodInfo,
    Status,
    pending,
    unresolvable,
    unschedulable,
)
from tests.state.facts import whole
from tests.state.histories import args, configured
from tests.state.objects import ZONE, node, pod
from tests.state.world import Rules, World, deleted


def world_of(*nodes: KubeObject, **rules: Any) -> World:
    world = World(Rules(**rules))
    world.add(*nodes)
    return world


def enabled(*plugins: type[Plugin]) -> dict[str, Any]:
    """Rules of a world with further plugins."""
    names = [{"name": cls.name} for cls in plugins]
    return {"config": configured({"plugins": {"multiPoint": {"enabled": names}}}), "plugins": plugins}


class TestWhatIsSaid:
    def test_no_nodes(self) -> None:
        world = world_of()
        world.add(pod("p"))
        (decision,) = world.run()
        message = "no nodes available to schedule pods"
        assert (decision.result, decision.reason, decision.message) == (
            "unschedulable",
            "Unschedulable",
            message,
        )
        assert world.notes("FailedScheduling") == [message]

    def test_reasons_are_counted_and_sorted(self) -> None:
        world = world_of(
            node("n0", {"cpu": "1", "memory": "1Gi", "pods": "10"}),
            node("n1", {"cpu": "1", "memory": "1Gi", "pods": "0"}),
            node("n2", unschedulable=True),
            node("n3", taints=[{"key": "k", "effect": "NoSchedule"}]),
            node("n4", taints=[{"key": "k", "effect": "NoExecute"}]),
        )
        world.add(pod("p", {"cpu": "2", "memory": "2Gi"}))
        (decision,) = world.run()
        expected = (
            "0/5 nodes are available: 1 Too many pods, 1 node(s) were unschedulable, 2 Insufficient cpu, "
            "2 Insufficient memory, 2 node(s) had untolerated taint(s). no new claims to deallocate, "
            "preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
        )
        assert decision.message == expected
        assert world.notes("FailedScheduling") == [expected]

    def test_counts_sort_as_text(self) -> None:
        nodes = [node(f"n{i}", {"cpu": "1", "pods": "10"}) for i in range(10)]
        nodes += [node(f"m{i}", unschedulable=True) for i in range(2)]
        world = world_of(*nodes)
        world.add(pod("p", {"cpu": "2"}))
        (decision,) = world.run()
        assert decision.message.startswith(
            "0/12 nodes are available: 10 Insufficient cpu, 2 node(s) were unschedulable. no new claims"
        )

    def test_preemption_that_cannot_help_is_explained(self) -> None:
        world = world_of(node("n0"), node("n1"), node("n2"))
        world.add(*(pod(f"r{i}", {"cpu": "4"}, on=f"n{i}") for i in range(3)), pod("p", {"cpu": "1"}))
        (decision,) = world.run()
        assert decision.message == (
            "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes "
            "are available: 3 No preemption victims found for incoming pod."
        )

    def test_a_pod_as_a_whole_can_be_refused(self) -> None:
        world = world_of(node("n0"))
        claim = {"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}
        world.add(pod("p", volumes=[claim]))
        (decision,) = world.run()
        assert decision.message == (
            '0/1 nodes are available: persistentvolumeclaim "missing" not found. not found'
        )
        assert decision.pre_filter is not None
        assert decision.pre_filter.plugin == "VolumeRestrictions"

    def test_nodes_that_the_pod_may_not_go_to_are_counted_apart(self) -> None:
        world = world_of(*(node(f"n{i}") for i in range(4)))
        fields = [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]
        terms = [{"matchFields": fields}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        world.add(pod("p", {"cpu": "8"}, affinity={"nodeAffinity": required}))
        (decision,) = world.run()
        assert decision.message == (
            "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. "
            "no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful "
            "for scheduling."
        )
        assert decision.pre_filter_nodes == ["n0"]
        assert decision.unschedulable_plugins == ["NodeAffinity", "NodeResourcesFit"]

    def test_the_condition(self) -> None:
        world = world_of(node("n0", {"cpu": "1", "pods": "10"}))
        world.add(pod("p", {"cpu": "2"}, metadata={"generation": 7}))
        (decision,) = world.run()
        (condition,) = world.pod("p").status.conditions
        assert (condition.type, condition.status, condition.reason) == (
            "PodScheduled",
            "False",
            "Unschedulable",
        )
        assert condition.message == decision.message
        assert condition.observed_generation == 7

    def test_a_condition_that_says_the_same_is_not_written_again(self) -> None:
        world = world_of(node("n0", {"cpu": "1", "pods": "10"}))
        world.add(pod("p", {"cpu": "2"}))
        world.run()
        before = world.pod("p")
        world.wait(400)  # it is tried again, with the same outcome
        assert len(world.decisions) == 2
        assert world.pod("p") is before
        assert len(world.notes("FailedScheduling")) == 2  # series are the event recorder's business

    def test_a_terminating_pod_is_not_tried(self) -> None:
        world = world_of(node("n0"))
        world.add(deleted(pod("p"), world.now))
        assert world.run() == []
        (event,) = world.cluster.events
        assert (event.type, event.reason, event.action) == ("Warning", "FailedScheduling", "Scheduling")
        assert event.note == "skip schedule deleting pod: default/p"
        assert not list(world.scheduler.queue.in_flight())

    def test_a_note_is_cut_to_1024_bytes_and_the_condition_is_not(self) -> None:
        world = world_of(node("n0"), **enabled(Verbose))
        world.add(pod("p"))
        (decision,) = world.run()
        (note,) = world.notes("FailedScheduling")
        assert len(decision.message.encode()) > 2000
        assert len(note.encode()) <= 1024
        assert note.endswith(" ...")
        assert decision.message.startswith(note.removesuffix(" ..."))
        (condition,) = world.pod("p").status.conditions
        assert condition.message == decision.message

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("x" * 1024, "x" * 1024),
            ("x" * 1025, "x" * 1020 + " ..."),
            ("é" * 513, "é" * 510 + " ..."),  # two bytes each
            ("x" + "é" * 512, "x" + "é" * 509 + " ..."),  # no half characters
        ],
    )
    def test_cutting(self, text: str, expected: str) -> None:
        assert truncate_note(text) == expected


class Verbose(Plugin):
    """Has a lot to say."""

    name = "Verbose"

    def events_to_register(self) -> Iterable[EventHint]:
        return []

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unresolvable("node(s) had é" * 200)


class TestQueueing:
    def test_higher_priority_first_then_first_come(self) -> None:
        world = world_of(node("n0"))
        world.add(pod("a"), pod("b", priority=5), pod("c"), pod("d", priority=5))
        assert [decision.pod for decision in world.run()] == [f"default/{name}" for name in "bdac"]

    def test_a_gated_pod_waits_silently_for_its_last_gate(self) -> None:
        world = world_of(node("n0"))
        gates = [{"name": "one"}, {"name": "two"}]
        world.add(pod("p", schedulingGates=gates))
        assert world.run() == []
        assert world.wait(400) == []
        assert world.cluster.events == []
        assert world.pod("p").status.conditions == []
        assert world.scheduler.queue.counts()["gated"] == 1
        world.add(pod("p", schedulingGates=gates[1:]))
        assert world.run() == []
        world.add(pod("p"))
        assert [decision.node for decision in world.run()] == ["n0"]

    def test_a_new_node_brings_back_the_pods_it_may_help(self) -> None:
        world = world_of(node("n0", {"cpu": "1", "pods": "10"}))
        world.add(pod("big", {"cpu": "8"}), pod("picky", nodeSelector={"disk": "ssd"}))
        assert [decision.result for decision in world.run()] == ["unschedulable"] * 2
        world.add(node("n1", {"cpu": "2", "pods": "10"}))
        assert world.run() == []
        world.add(node("n2", {"cpu": "16", "pods": "10"}))
        assert [(d.pod, d.node) for d in world.run()] == [("default/big", "n2")]
        world.add(node("n1", {"cpu": "2", "pods": "10"}, labels={"disk": "ssd"}))
        assert [(d.pod, d.node) for d in world.run()] == [("default/picky", "n1")]

    def test_a_deleted_pod_makes_room(self) -> None:
        world = world_of(node("n0"))
        running = pod("r", {"cpu": "4"}, on="n0")
        world.add(running, pod("p", {"cpu": "1"}))
        assert [decision.result for decision in world.run()] == ["unschedulable"]
        world.remove(running)
        assert [decision.node for decision in world.run()] == ["n0"]

    def test_an_update_that_concerns_nobody_brings_nobody_back(self) -> None:
        world = world_of(node("n0"))
        world.add(pod("p", {"cpu": "8"}))
        world.run()
        world.add(node("n0", annotations={"seen": "yes"}), node("n0", images={"app:1": 10}), node("n0"))
        world.add(pod("other", {"cpu": "1"}, on="n0"))
        assert world.run() == []

    def test_everyone_is_tried_again_after_five_minutes(self) -> None:
        world = world_of(node("n0"))
        world.add(pod("p", {"cpu": "8"}))
        world.run()
        assert world.wait(299) == []
        assert [decision.attempts for decision in world.wait(32)] == [2]

    def test_a_pod_that_was_refused_goes_behind_its_equals(self) -> None:
        world = world_of(node("n0", {"cpu": "1", "pods": "10"}))
        world.add(pod("first", {"cpu": "2"}))
        world.run()
        world.wait(20)
        world.add(pod("second", {"cpu": "2"}), pod("third", {"cpu": "2"}))
        world.add(node("n0", {"cpu": "2", "pods": "10"}))
        assert [decision.pod for decision in world.run()][:1] == ["default/first"]

    def test_a_finished_pod_is_gone(self) -> None:
        world = world_of(node("n0"))
        world.add(pod("r", {"cpu": "4"}, on="n0"), pod("p", {"cpu": "1"}))
        world.run()
        world.add(pod("r", {"cpu": "4"}, on="n0", status={"phase": "Succeeded"}))
        assert [(d.pod, d.node) for d in world.run()] == [("default/p", "n0")]

    def test_pods_of_another_scheduler_are_not_tried_but_count_once_they_run(self) -> None:
        world = world_of(node("n0"))
        world.add(pod("foreign", {"cpu": "3"}, schedulerName="other"))
        assert world.run() == []
        world.add(pod("foreign", {"cpu": "3"}, schedulerName="other", on="n0"), pod("p", {"cpu": "2"}))
        assert [decision.result for decision in world.run()] == ["unschedulable"]


class OpeningHours(Plugin):
    """Lets nobody in before a time, and says when that is."""

    name = "OpeningHours"
    opens: ClassVar[float] = 0.0

    def events_to_register(self) -> Iterable[EventHint]:
        return []

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if self.handle.now() < self.opens:
            return unschedulable("closed", not_before=self.opens)
        return None


class TestNotBefore:
    def test_the_pod_is_tried_exactly_then(self) -> None:
        world = world_of(node("n0"), **enabled(OpeningHours))
        OpeningHours.opens = world.now + 42.5
        world.add(pod("p"))
        assert [decision.result for decision in world.run()] == ["unschedulable"]
        assert world.scheduler.next_wake() == OpeningHours.opens
        assert world.wait(42.25) == []
        assert [decision.node for decision in world.wait(0.25)] == ["n0"]

    def test_the_earliest_of_several_times_counts(self) -> None:
        world = world_of(node("n0"), node("n1"), **enabled(OpeningHours, Shift))
        OpeningHours.opens = 0.0
        Shift.starts = {"n0": world.now + 30, "n1": world.now + 20}
        world.add(pod("p"))
        world.run()
        assert world.scheduler.next_wake() == world.now + 20
        assert [decision.node for decision in world.wait(20)] == ["n1"]

    def test_the_time_of_the_latest_refusal_counts(self) -> None:
        world = world_of(node("n0"), **enabled(OpeningHours))
        OpeningHours.opens = world.now + 10
        world.add(pod("p", {"cpu": "4"}), pod("q", {"cpu": "4"}))
        world.run()
        assert [decision.node for decision in world.wait(10)].count("n0") == 1
        world.remove(world.pod("p" if world.nodes_of("p") != [""] else "q"))
        OpeningHours.opens = world.now + 100  # closed again
        assert [decision.result for decision in world.run()] == ["unschedulable"]
        assert world.scheduler.next_wake() == world.now + 100
        assert world.wait(50) == []
        assert [decision.node for decision in world.wait(50)] == ["n0"]

    def test_a_plugin_that_names_the_past_does_not_keep_us_spinning(self) -> None:
        world = world_of(node("n0"), **enabled(Yesterday))
        world.add(pod("p"))
        assert len(world.run()) == 1
        wake = world.scheduler.next_wake()
        assert wake is not None
        assert 0 < wake - world.now <= 1
        assert len(world.wait(wake - world.now)) == 1


class Shift(Plugin):
    """Each node opens at its own time."""

    name = "Shift"
    starts: ClassVar[dict[str, float]] = {}

    def events_to_register(self) -> Iterable[EventHint]:
        return []

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        start = self.starts[node.name]
        return unresolvable("not yet", not_before=start) if self.handle.now() < start else None


class Yesterday(Plugin):
    name = "Yesterday"

    def events_to_register(self) -> Iterable[EventHint]:
        return []

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("too late", not_before=self.handle.now() - 100)


class Waits(Plugin):
    """Refuses with Pending until a node comes."""

    name = "Waits"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None if len(self.handle.snapshot.nodes) > 1 else pending("alone")


class TestPending:
    def test_a_pending_pod_skips_its_backoff(self) -> None:
        world = world_of(node("n0"), **enabled(Waits))
        scheduler = world.scheduler
        scheduler.apply(pod("p"))
        scheduler.schedule_one()
        scheduler.take_effects()
        scheduler.apply(node("n1"))
        queued = scheduler.queue.get("default/p")
        assert queued is not None
        assert queued.place is Place.ACTIVE


BAD_PODS: dict[str, dict[str, Any]] = {
    "quantity": {"requests": {"cpu": "lots"}},
    "overhead": {"overhead": {"memory": "1Zi!"}},
    "label operator": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": ZONE,
                        "labelSelector": {"matchExpressions": [{"key": "k", "operator": "Near"}]},
                    }
                ]
            }
        }
    },
}


class TestMalformed:
    @pytest.mark.parametrize("bad", sorted(BAD_PODS))
    @pytest.mark.parametrize("on", ["", "n0"])
    def test_a_pod_that_makes_no_sense_changes_nothing(self, bad: str, on: str) -> None:
        world = world_of(node("n0"))
        scheduler = world.scheduler
        before = whole(scheduler.cluster)
        with pytest.raises(MalformedObject, match=r"^Pod default/bad: spec\."):
            scheduler.apply(pod("bad", on=on, **BAD_PODS[bad]))
        assert whole(scheduler.cluster) == before
        assert scheduler.queue.get("default/bad") is None
        assert scheduler.intake.pod("bad") is None
        world.add(pod("good"))
        assert [(d.pod, d.node) for d in world.run()] == [("default/good", "n0")]

    @pytest.mark.parametrize("bad", sorted(BAD_PODS))
    def test_a_change_that_makes_no_sense_leaves_the_pod_as_it_was(self, bad: str) -> None:
        world = world_of(node("n0"))
        scheduler = world.scheduler
        world.add(pod("p", {"cpu": "1"}))
        with pytest.raises(MalformedObject):
            scheduler.apply(pod("p", **BAD_PODS[bad]))
        assert [(d.pod, d.node) for d in world.run()] == [("default/p", "n0")]
        before = whole(scheduler.cluster)
        with pytest.raises(MalformedObject):
            scheduler.apply(pod("p", on="n0", **BAD_PODS[bad]))
        assert whole(scheduler.cluster) == before

    def test_a_node_term_that_makes_no_sense_matches_no_node(self) -> None:
        """As in kube-scheduler, where it is no error."""
        world = world_of(node("n0", labels={"k": "v"}))
        terms = [{"matchExpressions": [{"key": "k", "operator": "Near", "values": ["v"]}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        world.add(pod("p", affinity={"nodeAffinity": required}), pod("q"))
        assert [(d.pod, d.result) for d in world.run()] == [
            ("default/p", "unschedulable"),
            ("default/q", "scheduled"),
        ]

    def test_a_spread_that_makes_no_sense_is_an_error_of_that_pod(self) -> None:
        world = world_of(node("n0"))
        constraint = {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchExpressions": [{"key": "k", "operator": "Near"}]},
        }
        world.add(pod("p", topologySpreadConstraints=[constraint]), pod("q"))
        first, second = world.run()
        assert (first.result, second.result) == ("error", "scheduled")
        assert first.message.startswith('running PreFilter plugin "PodTopologySpread": ')
        assert '"Near"' in first.message

    def test_a_node_that_makes_no_sense_changes_nothing(self) -> None:
        world = world_of(node("n0"))
        before = whole(world.scheduler.cluster)
        for name in ("n0", "n1"):
            with pytest.raises(MalformedObject, match=rf"^Node {name}: status\.allocatable\.cpu"):
                world.scheduler.apply(node(name, {"cpu": "many", "pods": "10"}))
        assert whole(world.scheduler.cluster) == before
        world.add(pod("p"))
        assert [decision.node for decision in world.run()] == ["n0"]


class TestTies:
    def test_ties_are_spread_over_the_best_nodes(self) -> None:
        world = world_of(
            *(node(f"n{i}") for i in range(4)), node("small", {"cpu": "1", "pods": "110"}), seed=7
        )
        chosen: Counter[str] = Counter()
        for i in range(400):
            tried = pod(f"p{i}")
            world.add(tried)
            (decision,) = world.run()
            assert decision.best == ["n0", "n1", "n2", "n3"]
            chosen[decision.node] += 1
            world.remove(world.pod(f"p{i}"))
        assert set(chosen) == {"n0", "n1", "n2", "n3"}
        assert all(60 <= count <= 140 for count in chosen.values()), chosen

    def test_another_seed_another_choice(self) -> None:
        def choices(seed: int) -> list[str]:
            world = world_of(*(node(f"n{i}") for i in range(8)), seed=seed)
            world.add(*(pod(f"p{i}") for i in range(8)))
            return [decision.node for decision in world.run()]

        assert choices(1) == choices(1)
        assert len({tuple(choices(seed)) for seed in range(5)}) > 1


def sampling(percentage: int | None, profile: int | None = None) -> Any:
    """A configuration that scores a share of the nodes, for all profiles or for one."""
    fields = {} if profile is None else {"percentageOfNodesToScore": profile}
    whole_config = {} if percentage is None else {"percentageOfNodesToScore": percentage}
    return from_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "default-scheduler", **fields}, {"schedulerName": "second"}],
            **whole_config,
        }
    )


class TestPercentage:
    @pytest.mark.parametrize(
        ("nodes", "overall", "own", "scored"),
        [
            (300, None, None, 300),  # nothing said: all of them
            (300, 0, None, 300),
            (300, 50, None, 150),
            (300, 10, None, 100),  # never fewer than 100
            (300, 100, None, 300),
            (300, 50, 80, 240),  # the profile knows better
            (300, 50, 0, 300),
            (300, None, 40, 120),
            (99, 50, None, 99),  # small clusters are always looked at completely
        ],
    )
    def test_how_many_feasible_nodes_are_scored(
        self, nodes: int, overall: int | None, own: int | None, scored: int
    ) -> None:
        world = world_of(*(node(f"n{i}") for i in range(nodes)), config=sampling(overall, own))
        world.add(pod("p"))
        (decision,) = world.run()
        assert len(decision.feasible) == len(decision.total) == scored
        assert decision.node in decision.feasible

    def test_another_profile_has_its_own_share(self) -> None:
        world = world_of(*(node(f"n{i}") for i in range(200)), config=sampling(60, 75))
        world.add(pod("p"), pod("q", schedulerName="second"))
        assert [len(decision.feasible) for decision in world.run()] == [150, 120]

    def test_each_attempt_goes_on_where_the_last_one_stopped(self) -> None:
        world = world_of(*(node(f"n{i:03}") for i in range(300)), config=sampling(40))
        world.add(*(pod(f"p{i}") for i in range(5)))
        seen: Counter[str] = Counter()
        for decision in world.run():
            assert len(decision.feasible) == 120
            seen.update(decision.feasible)
        # Five times 120 nodes go round the 300 twice.
        assert set(seen.values()) == {2}
        assert len(seen) == 300

    def test_only_feasible_nodes_count(self) -> None:
        full = [node(f"full{i}", {"cpu": "1", "pods": "0"}) for i in range(150)]
        world = world_of(*full, *(node(f"n{i}") for i in range(150)), config=sampling(40))
        world.add(pod("p"), pod("q"))
        for decision in world.run():
            assert len(decision.feasible) == 120
            assert len(decision.refusals) == 150


class TestProfiles:
    CONFIG = configured(
        {"schedulerName": "spreading"},
        {
            "schedulerName": "packing",
            "pluginConfig": [
                args(
                    "NodeResourcesFit",
                    scoringStrategy={"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]},
                )
            ],
            "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
        },
    )

    def test_two_profiles_share_a_queue_and_a_cluster(self) -> None:
        world = world_of(node("n0"), node("n1"), config=self.CONFIG)
        world.add(pod("r", {"cpu": "1"}, on="n0"))
        world.add(
            pod("packed", {"cpu": "1"}, schedulerName="packing"),
            pod("spread", {"cpu": "1"}, schedulerName="spreading"),
            pod("nobody", {"cpu": "1"}, schedulerName="default-scheduler"),
        )
        decisions = world.run()
        assert [(d.pod, d.profile, d.node) for d in decisions] == [
            ("default/packed", "packing", "n0"),
            ("default/spread", "spreading", "n1"),
        ]
        assert "NodeResourcesBalancedAllocation" in decisions[1].scores
        assert "NodeResourcesBalancedAllocation" not in decisions[0].scores
        assert world.nodes_of("packed", "spread", "nobody") == ["n0", "n1", ""]

    def test_pods_alike_in_all_but_the_profile_are_judged_by_their_own(self) -> None:
        world = world_of(node("n0"), node("n1"), config=self.CONFIG)
        world.add(pod("r", {"cpu": "1"}, on="n0"))
        for i in range(2):
            world.add(pod(f"a{i}", schedulerName="packing"), pod(f"b{i}", schedulerName="spreading"))
        nodes = {decision.pod: decision.node for decision in world.run()}
        assert nodes == {"default/a0": "n0", "default/a1": "n0", "default/b0": "n1", "default/b1": "n1"}


class Broken(Plugin):
    """Raises for some pods, at a point that the pod's annotation names."""

    name = "Broken"

    def events_to_register(self) -> Iterable[EventHint]:
        return []

    def _break(self, point: str, pod: PodInfo) -> None:
        if pod.annotations.get("break") == point:
            raise ValueError("broken")

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Any) -> Status | None:
        self._break("pre_filter", pod)
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        self._break("filter", pod)
        return None

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Any) -> Status | None:
        self._break("pre_score", pod)
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        self._break("score", pod)
        return 101 if pod.annotations.get("break") == "range" else 1


class TestBrokenPlugins:
    @pytest.mark.parametrize(
        ("point", "message"),
        [
            ("pre_filter", 'running PreFilter plugin "Broken": ValueError: broken'),
            ("filter", 'running "Broken" filter plugin: ValueError: broken'),
            ("pre_score", 'running PreScore plugin "Broken": ValueError: broken'),
            ("score", 'running Score plugins: plugin "Broken" failed with: ValueError: broken'),
            (
                "range",
                'applying score defaultWeights on Score plugins: plugin "Broken" returns an invalid '
                "score 101, it should in the range of [0, 100] after normalizing",
            ),
        ],
    )
    def test_one_attempt_is_an_error_and_nothing_else_suffers(self, point: str, message: str) -> None:
        world = world_of(node("n0"), node("n1"), **enabled(Broken))
        world.add(pod("p", metadata={"annotations": {"break": point}}), pod("q"))
        first, second = world.run()
        assert (first.result, first.reason, first.message) == ("error", "SchedulerError", message)
        assert second.result == "scheduled"
        assert world.notes("FailedScheduling") == [message]
        world.add(pod("p"))  # the next attempt, after the backoff, finds it mended
        assert [decision.result for decision in world.wait(5)] == ["scheduled"]


def test_decisions_tell_less_unless_they_are_recorded() -> None:
    world = world_of(node("n0"), node("n1", {"cpu": "1", "pods": "0"}))
    quiet = Scheduler(clock=lambda: world.now, pick=lambda n: 0)
    for obj in (node("n0"), node("n1", {"cpu": "1", "pods": "0"}), pod("p"), pod("q", {"cpu": "9"})):
        quiet.apply(obj)
        world.add(obj)
    told = world.run()
    brief = [quiet.schedule_one(), quiet.schedule_one()]
    for full, short in zip(told, brief, strict=True):
        assert short is not None
        assert (short.pod, short.result, short.node, short.message) == (
            full.pod,
            full.result,
            full.node,
            full.message,
        )
        assert full.refusals
        assert not short.refusals
        assert not short.scores
    notes = [e.note for e in quiet.take_effects() if isinstance(e, EmitEvent)]
    assert notes == world.notes("FailedScheduling")
