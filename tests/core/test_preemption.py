"""Preemption from the refused pod to the one that runs in its victims' place."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.core.effects import Evict, PatchPodStatus
from mooring.framework import CycleState, Plugin, PodInfo, Status, wait
from tests.state.histories import configured
from tests.state.objects import ZONE, node, pod, thing
from tests.state.world import Rules, World, deleted

FULL = "0/1 nodes are available: 1 Insufficient cpu."


def world_of(*objects: KubeObject, **rules: Any) -> World:
    world = World(Rules(**rules))
    world.add(*objects)
    return world


def low(name: str, on: str = "n0", cpu: str = "4", **more: Any) -> Pod:
    return pod(name, {"cpu": cpu}, on=on, **{"priority": 1, **more})


def high(name: str = "p", cpu: str = "4", **more: Any) -> Pod:
    return pod(name, {"cpu": cpu}, **{"priority": 100, **more})


def budget(name: str, app: str, allowed: int) -> KubeObject:
    spec = {"selector": {"matchLabels": {"app": app}}}
    status = {"disruptionsAllowed": allowed}
    return thing("PodDisruptionBudget", name, "default", group="policy/v1", spec=spec, status=status)


def names(world: World) -> set[str]:
    return {each.name for each in world.cluster.pods.values()}


class TestEndToEnd:
    def test_a_victim_makes_room(self) -> None:
        world = world_of(node("n0"), low("v"), high())
        first, second = world.run()
        assert (first.result, first.message) == ("unschedulable", FULL)
        assert first.post_filter is not None
        assert first.post_filter.nominated_node == "n0"
        assert first.post_filter.victims == ["default/v"]
        assert (second.pod, second.node, second.attempts) == ("default/p", "n0", 2)
        assert names(world) == {"p"}
        assert world.nodes_of("p") == ["n0"]

    def test_what_is_said_about_it(self) -> None:
        world = world_of(
            node("n0"), low("v", uid="uid-v"), high(uid="uid-p", schedulerName="default-scheduler")
        )
        world.attempt()
        failed, preempted = sorted(world.cluster.events, key=lambda event: event.reason)
        assert (failed.reason, failed.note) == ("FailedScheduling", FULL)
        assert (preempted.regarding.name, preempted.type) == ("v", "Normal")
        assert (preempted.reason, preempted.action) == ("Preempted", "Preempting")
        assert preempted.note == "Preempted by pod uid-p on node n0"
        assert preempted.profile == "default-scheduler"  # the preemptor's, whoever the victim belongs to
        (evict,) = [effect for effect in world.cluster.effects if isinstance(effect, Evict)]
        assert (evict.victim.name, evict.preemptor.name) == ("v", "p")
        condition = evict.condition
        assert (condition.type, condition.status) == ("DisruptionTarget", "True")
        assert condition.reason == "PreemptionByScheduler"
        assert condition.message == "default-scheduler: preempting to accommodate a higher priority pod"
        assert world.pod("p").status.nominated_node_name == "n0"

    def test_a_pod_that_may_not_preempt(self) -> None:
        world = world_of(node("n0"), low("v"), high(preemptionPolicy="Never"))
        (decision,) = world.run()
        suffix = "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
        assert decision.message == f"{FULL} {suffix}"
        assert names(world) == {"v", "p"}

    def test_equals_are_not_preempted(self) -> None:
        world = world_of(node("n0"), low("v", priority=100), high())
        (decision,) = world.run()
        assert decision.message.endswith("1 No preemption victims found for incoming pod.")

    def test_where_no_removal_would_help_none_is_tried(self) -> None:
        world = world_of(
            node("n0", taints=[{"key": "k", "effect": "NoSchedule"}]),
            node("n1", {"cpu": "1", "pods": "10"}),
            low("v"),
            low("w", on="n1", cpu="1"),
            high(),
        )
        (decision,) = world.run()
        assert decision.message.endswith(
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        )
        assert names(world) == {"v", "w", "p"}

    def test_as_few_as_possible_go_and_the_important_stay(self) -> None:
        running = [
            low("a", cpu="1", priority=5),
            low("b", cpu="1", priority=1),
            low("c", cpu="1", priority=3),
            low("d", cpu="1", priority=2),
        ]
        world = world_of(node("n0"), *running, high(cpu="2"))
        world.run()
        assert names(world) == {"a", "c", "p"}

    def test_longer_running_pods_stay(self) -> None:
        def started(name: str, minute: int) -> KubeObject:
            return low(name, cpu="2", status={"startTime": f"2029-01-01T00:0{minute}:00Z"})

        world = world_of(node("n0"), started("young", 5), started("old", 1), high(cpu="2"))
        world.run()
        assert names(world) == {"old", "p"}

    def test_a_port_is_worth_a_victim(self) -> None:
        port = {"ports": [{"hostPort": 80}]}
        world = world_of(
            node("n0"), low("v", cpu="1", container=port), low("w", cpu="1"), high(cpu="1", container=port)
        )
        world.run()
        assert names(world) == {"w", "p"}
        assert world.nodes_of("p") == ["n0"]

    def test_an_unloved_neighbour_is_a_victim(self) -> None:
        apart = {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}}
                ]
            }
        }
        world = world_of(
            node("n0", labels={ZONE: "a"}),
            low("v", cpu="1", labels={"app": "a"}),
            low("w", cpu="1"),
            high(cpu="1", affinity=apart),
        )
        world.run()
        assert names(world) == {"w", "p"}
        assert world.nodes_of("p") == ["n0"]

    def test_victims_of_different_kinds(self) -> None:
        """The end of the last victim may concern none of the plugins that refused the pod at first; then it
        is tried again with everybody else who has waited for long."""
        port = {"ports": [{"hostPort": 80}]}
        running = low("v", cpu="1", container=port), low("w", cpu="3")
        world = world_of(node("n0"), *running, high(cpu="4", container=port))
        world.run()
        assert names(world) == {"p"}
        world.wait(331)
        assert world.nodes_of("p") == ["n0"]


class TestChoice:
    """Which node is preempted on; each pair differs in one respect."""

    def choose(self, *running: KubeObject, others: tuple[KubeObject, ...] = ()) -> tuple[str, set[str]]:
        world = world_of(node("n0"), node("n1"), *others, *running, high())
        decision = world.attempt()
        assert decision is not None
        assert decision.post_filter is not None
        assert len(decision.post_filter.candidates) == 2
        assert decision.post_filter.best == [decision.post_filter.nominated_node]
        return decision.post_filter.nominated_node or "", set(decision.post_filter.victims)

    def test_no_budget_is_violated_if_it_can_be_helped(self) -> None:
        running = low("v", labels={"app": "a"}), low("w", on="n1", priority=50)
        assert self.choose(*running, others=(budget("b", "a", 0),)) == ("n1", {"default/w"})
        assert self.choose(*running, others=(budget("b", "a", 1),)) == ("n0", {"default/v"})

    def test_as_few_violations_as_possible(self) -> None:
        a = {"app": "a"}
        two = low("v0", cpu="2", labels=a), low("v1", cpu="2", labels=a)
        one = low("w", on="n1", priority=50, labels=a)
        assert self.choose(*two, one, others=(budget("b", "a", 0),)) == ("n1", {"default/w"})

    def test_a_budget_with_an_invalid_selector_covers_nothing(self) -> None:
        invalid = {"selector": {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["a"]}]}}
        other = thing("PodDisruptionBudget", "b", "default", group="policy/v1", spec=invalid)
        running = low("v", labels={"app": "a"}), low("w", on="n1", priority=50)
        assert self.choose(*running, others=(other,)) == ("n0", {"default/v"})

    def test_each_victim_uses_the_budget_up(self) -> None:
        a = {"app": "a"}
        two = low("v0", cpu="2", labels=a), low("v1", cpu="2", labels=a)
        one = low("w", on="n1", priority=50, labels=a)
        assert self.choose(*two, one, others=(budget("b", "a", 1),)) == ("n1", {"default/w"})
        assert self.choose(*two, one, others=(budget("b", "a", 2),))[0] == "n0"

    def test_a_lower_highest_priority(self) -> None:
        assert self.choose(low("v", priority=5), low("w", on="n1", priority=6)) == ("n0", {"default/v"})

    def test_a_lower_sum_of_priorities(self) -> None:
        lower = low("v0", cpu="2", priority=5), low("v1", cpu="2", priority=1)
        upper = low("w0", on="n1", cpu="2", priority=5), low("w1", on="n1", cpu="2", priority=2)
        assert self.choose(*lower, *upper)[0] == "n0"

    def test_fewer_victims(self) -> None:
        # A negative priority counts little enough for three to weigh as much as two.
        assert self.choose(low("v0", cpu="2"), low("v1", cpu="2"), low("w", on="n1"))[0] == "n1"

    def test_the_youngest_of_the_important_victims(self) -> None:
        old = low("v", status={"startTime": "2029-01-01T00:00:00Z"})
        young = low("w", on="n1", status={"startTime": "2029-01-02T00:00:00Z"})
        assert self.choose(old, young) == ("n1", {"default/w"})

    def test_a_pod_without_a_start_time_starts_now(self) -> None:
        old = low("v", status={"startTime": "2029-01-01T00:00:00Z"})
        assert self.choose(old, low("w", on="n1")) == ("n1", {"default/w"})

    def test_a_violation_is_a_last_resort_but_no_obstacle(self) -> None:
        world = world_of(node("n0"), low("v", labels={"app": "a"}), budget("b", "a", 0), high())
        first, second = world.run()
        assert first.post_filter is not None
        assert first.post_filter.candidates["n0"].pdb_violations == 1
        assert second.node == "n0"

    def test_pods_already_disrupted_use_no_budget(self) -> None:
        spec = {"selector": {"matchLabels": {"app": "a"}}}
        status = {"disruptionsAllowed": 0, "disruptedPods": {"v": "2030-01-01T00:00:00Z"}}
        known = thing("PodDisruptionBudget", "b", "default", group="policy/v1", spec=spec, status=status)
        world = world_of(node("n0"), low("v", labels={"app": "a"}), known, high())
        decision = world.attempt()
        assert decision is not None
        assert decision.post_filter is not None
        assert decision.post_filter.candidates["n0"].pdb_violations == 0


class TestWaitingForVictims:
    def test_the_preemptor_is_gated_until_its_victims_are_going(self) -> None:
        world = world_of(node("n0"), low("v", cpu="2"), low("w", cpu="2"), high())
        scheduler = world.scheduler
        scheduler.schedule_one()
        victims = [e.victim for e in scheduler.take_effects() if isinstance(e, Evict)]
        assert sorted(victim.name for victim in victims) == ["v", "w"]
        queued = scheduler.queue.get("default/p")
        assert queued is not None

        scheduler.delete(world.pod("v"))  # brings it back, were it not for the other victim
        assert scheduler.schedule_one() is None
        assert queued.gating_plugin == "DefaultPreemption"
        assert scheduler.queue.counts()["gated"] == 1
        scheduler.delete(world.pod("w"))
        decision = scheduler.schedule_one()
        assert decision is not None
        assert decision.node == "n0"

    def test_terminating_is_enough_to_be_let_through_but_not_to_fit(self) -> None:
        world = world_of(node("n0"), low("v"), high(), graceful=True)
        world.run()
        assert names(world) == {"v", "p"}
        assert world.pod("v").terminating
        assert world.pod("p").status.nominated_node_name == "n0"
        world.add(node("n0", labels={"x": "y"}))
        (again,) = world.wait(400)
        assert again.message == (
            f"{FULL} no new claims to deallocate, preemption: not eligible due to a terminating pod on the "
            "nominated node."
        )
        assert world.pod("p").status.nominated_node_name == "n0"  # the promise stands
        assert world.scheduler.queue.nominator.node_of("p") == "n0"
        world.remove(world.pod("v"))
        assert [decision.node for decision in world.run()] == ["n0"]

    def test_victims_that_are_going_anyway_are_not_evicted_again(self) -> None:
        world = world_of(node("n0"), high(), graceful=True)
        world.remove(world.pod("p"))
        world.add(deleted(pod("v", {"cpu": "4"}, on="n0", priority=1), world.now), high())
        world.run()
        assert not [effect for effect in world.cluster.effects if isinstance(effect, Evict)]
        assert world.notes("Preempted") == []
        assert world.pod("p").status.nominated_node_name == "n0"
        assert not world.scheduler.evictions.preempting

    def test_an_eviction_that_fails_lets_the_preemptor_try_again(self) -> None:
        world = world_of(node("n0"), low("v"), high())
        scheduler = world.scheduler
        scheduler.schedule_one()
        (evict,) = [e for e in scheduler.take_effects() if isinstance(e, Evict)]
        assert scheduler.schedule_one() is None
        scheduler.evictions.failed(evict.preemptor)
        decision = scheduler.schedule_one()
        assert decision is not None
        assert decision.post_filter is not None
        assert decision.post_filter.victims == ["default/v"]

    def test_a_preemptor_that_is_deleted_leaves_no_promise(self) -> None:
        world = world_of(node("n0"), low("v"), high(), graceful=True)
        world.run()
        world.add(pod("later", {"cpu": "4"}, priority=50))
        world.run()
        world.remove(world.pod("p"))
        world.remove(world.pod("v"))
        assert [(d.pod, d.node) for d in world.run()] == [("default/later", "n0")]
        assert not world.scheduler.evictions.preempting
        assert not world.scheduler.queue.nominator.nodes_with_nominations()


class TestNominations:
    def waiting_world(self) -> World:
        """Pod p (priority 100) is promised the whole of n0 once v is gone."""
        world = world_of(node("n0"), low("v"), high(), graceful=True)
        world.run()
        assert world.scheduler.queue.nominator.node_of("p") == "n0"
        return world

    @pytest.mark.parametrize("priority", [None, 50, 100])
    def test_no_more_important_pods_do_not_take_the_room(self, priority: int | None) -> None:
        world = world_of(
            node("n0"), node("n1"), low("v"), low("w", on="n1", priority=1000), high(), graceful=True
        )
        world.run()
        world.add(pod("thief", {"cpu": "1"}, priority=priority))
        world.run()
        scheduler = world.scheduler
        # The victim goes, and the others are tried before the one that waited for it.
        preemptor = world.pod("p")
        scheduler.queue.delete(scheduler.cluster.info(preemptor))
        scheduler.queue.nominator.add(scheduler.cluster.info(preemptor), "n0")
        world.remove(world.pod("v"))
        (decision,) = world.run()
        assert decision.pod == "default/thief"
        assert decision.result == "unschedulable"
        assert decision.refusals["n0"].reasons == ["Insufficient cpu"]

    def test_a_more_important_pod_takes_the_room(self) -> None:
        world = self.waiting_world()
        world.remove(world.pod("v"))
        world.add(pod("boss", {"cpu": "4"}, priority=1000))
        first, *others = world.run()
        assert (first.pod, first.node) == ("default/boss", "n0")
        assert {(other.pod, other.node) for other in others} == {("default/p", "")}
        assert world.nodes_of("boss", "p") == ["n0", ""]

    def test_promises_to_less_important_pods_are_taken_back(self) -> None:
        world = self.waiting_world()
        world.add(low("u", on="n0", cpu="0"))
        world.cluster.effects.clear()
        world.add(pod("boss", {"cpu": "4"}, priority=1000))
        decision = world.attempt()
        assert decision is not None
        assert decision.pod == "default/boss"
        assert decision.post_filter is not None
        assert decision.post_filter.nominated_node == "n0"
        assert world.scheduler.queue.nominator.node_of("boss") == "n0"

    def test_the_promise_is_taken_back_when_others_must_still_be_evicted(self) -> None:
        world = world_of(
            node("n0"), low("v", cpu="2"), low("w", cpu="2", priority=5), high(cpu="2"), graceful=True
        )
        world.run()  # p is promised the room of v
        assert world.pod("p").status.nominated_node_name == "n0"
        world.cluster.effects.clear()
        world.add(pod("boss", {"cpu": "4"}, priority=1000))
        decision = world.attempt()
        assert decision is not None
        assert decision.post_filter is not None
        assert set(decision.post_filter.victims) == {"default/v", "default/w"}
        cleared = [e for e in world.cluster.effects if isinstance(e, PatchPodStatus) and e.pod.name == "p"]
        assert [effect.nominated_node for effect in cleared] == [""]
        assert world.pod("p").status.nominated_node_name == ""
        assert world.scheduler.queue.nominator.node_of("p") == ""
        assert world.scheduler.queue.nominator.node_of("boss") == "n0"

    def test_a_promise_that_cannot_be_kept_is_given_up(self) -> None:
        world = self.waiting_world()
        world.remove(world.pod("v"))
        world.add(low("squatter", priority=1000))
        world.scheduler.queue.activate([world.scheduler.cluster.info(world.pod("p"))])
        decisions = [decision for decision in world.run() if decision.pod == "default/p"]
        assert decisions[-1].result == "unschedulable"
        assert world.pod("p").status.nominated_node_name == ""
        assert world.scheduler.queue.nominator.node_of("p") == ""

    def test_a_nominated_pod_goes_to_its_node_even_if_others_are_better(self) -> None:
        world = world_of(node("n0"), low("v"), high(), graceful=True)
        world.run()
        world.remove(world.pod("v"))
        world.add(node("n1", {"cpu": "64", "memory": "64Gi", "pods": "110"}))
        (decision,) = world.run()
        assert (decision.pod, decision.node) == ("default/p", "n0")

    def test_a_nomination_made_by_someone_else_counts(self) -> None:
        world = world_of(node("n0"), node("n1"))
        world.add(low("w", on="n1", priority=1000))
        world.add(pod("gated", {"cpu": "4"}, priority=100, status={"nominatedNodeName": "n0"}))
        world.add(pod("p", {"cpu": "1"}, priority=1000))
        decisions = {decision.pod: decision for decision in world.run()}
        assert decisions["default/p"].node == "n0"  # more important than the nominated one
        assert decisions["default/gated"].result == "unschedulable"


class Patience(Plugin):
    """Holds pods of low priority back."""

    name = "Patience"

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return wait(600.0) if pod.priority < 100 else None


class TestVictimsInPermit:
    CONFIG = configured({"plugins": {"multiPoint": {"enabled": [{"name": Patience.name}]}}})

    def test_a_victim_that_waits_in_permit_is_let_go_in_memory(self) -> None:
        world = world_of(node("n0"), config=self.CONFIG, plugins=(Patience,))
        world.add(pod("v", {"cpu": "4"}, uid="uid-v", priority=1))
        world.run()
        assert world.scheduler.cluster.assumed_count() == 1
        world.add(high(uid="uid-p"))
        world.run()
        assert world.nodes_of("p", "v") == ["n0", ""]
        assert not [effect for effect in world.cluster.effects if isinstance(effect, Evict)]
        assert world.notes("Preempted") == ["Preempted by pod uid-p on node n0 (in kube-scheduler memory)."]
        assert len(world.scheduler.waiting) == 0
        assert world.scheduler.cluster.assumed_count() == 0
        assert "v" in names(world)  # not deleted, and back in the queue
        assert world.scheduler.queue.get("default/v") is not None

    def test_what_its_victim_is_told(self) -> None:
        world = world_of(node("n0"), config=self.CONFIG, plugins=(Patience,))
        world.add(pod("v", {"cpu": "4"}, priority=1))
        world.run()
        world.add(high())
        world.attempt()
        (condition,) = world.pod("v").status.conditions
        assert condition.reason == "SchedulerError"
        assert condition.message == "waiting on permit for pod: preempted"


class TestRemembered:
    """What is remembered of earlier pods of a shape must not be taken for what holds now."""

    @pytest.mark.parametrize("reuse", [True, False])
    def test_victims_that_have_not_started_start_now_and_not_when_they_were_first_looked_at(
        self, reuse: bool
    ) -> None:
        world = World(Rules(), reuse=reuse)
        world.add(*(node(f"n{i}") for i in range(3)), *(low(f"v{i}", on=f"n{i}") for i in range(3)))
        world.add(high("p", cpu="4"), high("q", cpu="4"))
        scheduler = world.scheduler
        first = scheduler.schedule_one()
        scheduler.take_effects()  # nobody carries them out
        world.now += 60
        assert first is not None
        assert first.post_filter is not None
        assert first.post_filter.best == ["n0", "n1", "n2"]
        left = sorted({"n0", "n1", "n2"} - {first.post_filter.nominated_node})
        scheduler.cluster.touch(left[0])  # so that one of the nodes is looked at again
        second = scheduler.schedule_one()
        assert second is not None
        assert second.post_filter is not None
        assert second.post_filter.best == left

    @pytest.mark.parametrize("reuse", [True, False])
    def test_a_pod_is_not_in_its_own_way(self, reuse: bool) -> None:
        world = World(Rules(graceful=True), reuse=reuse)
        world.add(node("n0"), node("n1"), low("v0", on="n0"), low("v1", on="n1", priority=2))
        world.add(high("p"))
        first = world.attempt()
        assert first is not None
        assert first.post_filter is not None
        assert first.post_filter.nominated_node == "n0"
        world.add(high("q"))  # of the same shape, for which p's promise is an obstacle
        second = world.attempt()
        assert second is not None
        assert second.post_filter is not None
        assert sorted(second.post_filter.candidates) == ["n1"]
        # The victims were marked by somebody else, so that p may look for new ones.
        for name in ("v0", "v1"):
            world.add(deleted(low(name, on="n0" if name == "v0" else "n1"), world.now))
        world.scheduler.queue.activate([world.scheduler.cluster.info(world.pod("p"))])
        third = world.attempt()
        assert third is not None
        assert third.pod == "default/p"
        assert third.post_filter is not None
        assert "n0" in third.post_filter.candidates
