"""The Handle: what plugins can see and do beyond the pod and the node they are asked about."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mooring.api.storage import StorageClass
from mooring.api.workloads import Service
from mooring.core.scheduler import Scheduler
from mooring.framework import Handle, Plugin, unschedulable, wait
from mooring.framework.cycle_state import PODS_TO_ACTIVATE
from mooring.plugins.default_preemption.default_preemption import DefaultPreemption
from mooring.runtime.engine_handle import EngineHandle
from mooring.testing import Cluster, VirtualClock, config_with, make_cluster, make_node, make_pod
from mooring.testing.sample import sample_objects
from tests.framework.kit import beside_defaults, only, probe

NEVER: list[Any] = []


class Nosy(Plugin):
    """Takes part so that it gets a handle."""

    name = "Nosy"

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        return None


def handle_of(cluster: Cluster, cls: type[Plugin] = Nosy) -> Handle:
    return cluster.plugin(cls).handle


class TestSnapshot:
    def test_it_has_the_nodes_and_the_pods_on_them(self) -> None:
        cluster = only(Nosy)
        handle = handle_of(cluster)
        cluster.apply(make_pod("here", node_name="b", requests={"cpu": "1"}), make_pod("waiting"))
        assert list(handle.snapshot.nodes.names) == ["a", "b"]
        node = handle.snapshot.node("b")
        assert node is not None
        assert [pod.name for pod in node.pods] == ["here"]
        assert (node.requested["cpu"], node.free["cpu"], node.allocatable["cpu"]) == (1000, 3000, 4000)
        assert [pod.name for pod in handle.snapshot.pods()] == ["here"]
        assert handle.snapshot.node("nowhere") is None

    def test_pods_that_were_just_placed_are_in_it(self) -> None:
        seen: list[list[str]] = []

        class Looks(Plugin):
            name = "Looks"

            def pre_filter(self, state: Any, pod: Any, nodes: Any) -> None:
                seen.append(sorted(pod.name for pod in self.handle.snapshot.pods()))

            def permit(self, state: Any, pod: Any, node_name: str) -> Any:
                return wait(60)

        cluster = only(Looks)
        cluster.apply(make_pod("one"), make_pod("two"))
        cluster.schedule()
        assert seen == [[], ["one"]]

    def test_claims_count_their_users(self) -> None:
        cluster = only(Nosy)
        cluster.apply(
            make_pod("one", node_name="a", claims="data"), make_pod("two", node_name="b", claims="data")
        )
        users = cluster.scheduler.cluster.claim_users
        assert (users("default/data"), users("other/data")) == (2, 0)


class TestListers:
    def test_objects_are_found_by_kind_name_and_namespace(self) -> None:
        cluster = only(Nosy)
        listers = handle_of(cluster).listers
        before = listers.version(Service)
        cluster.apply(*sample_objects())
        service = listers.get(Service, "web", "default")
        assert service is not None
        assert service.spec.selector == {"app": "web"}
        assert listers.get(Service, "web", "other") is None
        assert sorted(c.name for c in listers.list(StorageClass)) == ["fast", "late"]
        assert [s.name for s in listers.list(Service, "default")] == ["web"]
        assert list(listers.list(Service, "other")) == []
        assert listers.version(Service) != before

    def test_a_version_changes_with_its_kind_only(self) -> None:
        cluster = only(Nosy)
        listers = handle_of(cluster).listers
        cluster.apply(*sample_objects())
        services, classes = listers.version(Service), listers.version(StorageClass)
        found = listers.get(Service, "web", "default")
        assert found is not None
        cluster.delete(found)
        assert listers.version(Service) != services
        assert listers.version(StorageClass) == classes
        assert listers.get(Service, "web", "default") is None


class TestWaitingPods:
    @staticmethod
    def held() -> Cluster:
        cluster = only(probe("Holder", permit=wait(60, "held"), events_to_register=NEVER), Nosy)
        cluster.apply(make_pod("one"), make_pod("two"))
        cluster.schedule()
        return cluster

    def test_they_can_be_gone_through(self) -> None:
        pods = list(handle_of(self.held()).waiting_pods())
        assert [(pod.pod.name, list(pod.pending_plugins)) for pod in pods] == [
            ("one", ["Holder"]),
            ("two", ["Holder"]),
        ]

    def test_one_can_be_found_by_uid_and_allowed(self) -> None:
        cluster = self.held()
        handle = handle_of(cluster)
        found = handle.waiting_pod(cluster.pod("two").uid)
        assert found is not None
        found.allow("Holder")
        cluster.schedule()
        assert (bool(cluster.node_of("one")), bool(cluster.node_of("two"))) == (False, True)
        assert handle.waiting_pod(cluster.pod("two").uid) is None
        assert handle.waiting_pod("nobody") is None

    def test_one_can_be_rejected(self) -> None:
        cluster = self.held()
        handle = handle_of(cluster)
        uid = cluster.pod("one").uid
        assert handle.reject_waiting_pod(uid) is True
        assert handle.reject_waiting_pod(uid) is False
        assert [pod.pod.name for pod in handle.waiting_pods()] == ["two"]
        cluster.schedule()
        assert cluster.pod("one").status.conditions[0].message.endswith("1 removed.")


class TestNominations:
    def test_nominated_pods_are_known_by_node(self) -> None:
        cluster = only(Nosy)
        handle = handle_of(cluster)
        cluster.apply(make_pod("promised", nominated_node="b"))
        assert [pod.name for pod in handle.nominated_pods("b")] == ["promised"]
        assert list(handle.nominated_pods("a")) == []

    def test_a_preemptor_is_preempting_until_its_victims_are_gone(self) -> None:
        """Driven by hand, so that eviction takes a moment."""
        scheduler = Scheduler(
            None, clock=VirtualClock(), pick=lambda n: 0, plugins=[Nosy], parallelize=_threads
        )
        scheduler.apply(make_node("a", cpu="1"))
        victim = make_pod("victim", requests={"cpu": "1"}, node_name="a")
        preemptor = make_pod("preemptor", requests={"cpu": "1"}, priority=10)
        scheduler.apply(victim)
        scheduler.apply(preemptor)
        preemption = scheduler.profiles["default-scheduler"].plugins["DefaultPreemption"]
        assert isinstance(preemption, DefaultPreemption)
        handle = preemption.handle
        assert not handle.is_preempting(preemptor.uid)
        scheduler.schedule_one()
        assert handle.is_preempting(preemptor.uid)
        assert [pod.name for pod in handle.nominated_pods("a")] == ["preemptor"]
        scheduler.delete(victim)
        assert not handle.is_preempting(preemptor.uid)


class TestTools:
    def test_the_clock_is_the_schedulers(self) -> None:
        cluster = only(Nosy)
        handle = handle_of(cluster)
        before = handle.now()
        cluster.advance(7.5)
        assert handle.now() == before + 7.5

    def test_the_logger_is_named_after_the_profile(self, caplog: pytest.LogCaptureFixture) -> None:
        handle = handle_of(only(Nosy))
        with caplog.at_level(logging.INFO):
            handle.logger.info("seen %d", 3)
        assert caplog.record_tuples == [("mooring.plugins.default-scheduler", logging.INFO, "seen 3")]

    def test_the_client_writes_to_the_cluster(self) -> None:
        class Marker(Plugin):
            name = "Marker"

            async def pre_bind(self, state: Any, pod: Any, node_name: str) -> None:
                assert self.handle.client is not None
                patch = {"status": {"startTime": "2030-01-01T00:00:00Z"}}
                await self.handle.client.patch(pod.pod, patch, "status")

        cluster = only(Marker)
        cluster.apply(make_pod())
        cluster.schedule()
        assert cluster.pod("pod").status.start_time == "2030-01-01T00:00:00Z"
        assert cluster.node_of("pod")

    def test_without_a_driver_there_is_no_client(self) -> None:
        scheduler = Scheduler(None, clock=VirtualClock(), pick=lambda n: 0)
        assert scheduler.profiles["default-scheduler"].plugins["DefaultBinder"].handle.client is None

    def test_random_numbers_come_from_the_seed(self) -> None:
        drawn = [
            [handle.random_below(1000) for _ in range(5)]
            for handle in (handle_of(make_cluster(plugins=[Nosy], seed=seed)) for seed in (1, 1, 2))
        ]
        assert drawn[0] == drawn[1] != drawn[2]

    def test_events_go_out_with_the_other_effects(self) -> None:
        class Teller(Plugin):
            name = "Teller"

            def reserve(self, state: Any, pod: Any, node_name: str) -> None:
                self.handle.emit_event(pod, "Warning", "Noted", "Reserving", f"takes {node_name}")

        cluster = only(Teller, nodes=("a",))
        cluster.apply(make_pod())
        cluster.schedule()
        assert cluster.events()[0] == ("pod/pod", "Warning", "Noted", "Reserving", "takes a")

    def test_activate_brings_a_refused_pod_back_at_once(self) -> None:
        full = [True]
        a = probe("A", filter=lambda *args: unschedulable("full") if full else None, events_to_register=NEVER)
        cluster = only(a, Nosy)
        cluster.apply(make_pod())
        cluster.schedule()
        full.clear()
        assert cluster.schedule() == []
        queued = cluster.scheduler.queue.get("default/pod")
        assert queued is not None
        handle_of(cluster).activate([queued.pod])
        cluster.schedule()
        assert cluster.node_of("pod")

    def test_pods_left_in_the_cycle_state_are_activated(self) -> None:
        open_now: list[str] = ["second"]
        held_back: dict[str, Any] = {}

        def refuse(state: Any, pod: Any, node: Any) -> Any:
            if pod.name in open_now:
                return None
            held_back[pod.key] = pod
            return unschedulable("not yet")

        def stash(state: Any, pod: Any, node_name: str) -> None:
            if pod.name == "second":
                open_now.append("first")
                state.write(PODS_TO_ACTIVATE, dict(held_back))

        cluster = only(probe("A", filter=refuse, reserve=stash, events_to_register=NEVER))
        cluster.apply(make_pod("first"))
        cluster.schedule()
        cluster.apply(make_pod("second"))
        cluster.schedule()
        assert cluster.node_of("first")

    def test_run_filters_asks_the_profile_about_a_node_as_it_would_be(self) -> None:
        answers: list[tuple[bool, Any]] = []

        class Wonders(Plugin):
            name = "Wonders"
            handle: EngineHandle

            def post_filter(self, state: Any, pod: Any, statuses: Any) -> Any:
                import numpy as np

                nodes = self.handle.snapshot.nodes
                view = nodes.what_if(np.array([0]), [nodes[0].pods], [()])
                for there in (True, False):
                    view.set_present(0, np.array([True]), there)
                    answer = self.handle.run_filters(state, pod, view)
                    answers.append((bool(answer.passed[0]), answer.status(0)))
                return unschedulable("just looking")

        cluster = make_cluster([make_node("a", cpu="1")], plugins=[Wonders])
        cluster.apply(
            make_pod("there", requests={"cpu": "1"}, node_name="a"), make_pod(requests={"cpu": "1"})
        )
        cluster.schedule()
        (full, refusal), (free, nothing) = answers
        assert (full, free, nothing) == (False, True, None)
        assert (refusal.plugin, refusal.reasons) == ("NodeResourcesFit", ("Insufficient cpu",))

    def test_filters_are_local_unless_one_has_no_cache_key(self) -> None:
        answers: list[bool] = []

        class Asks(Plugin):
            name = "Asks"
            handle: EngineHandle

            def pre_score(self, state: Any, pod: Any, nodes: Any) -> None:
                answers.append(self.handle.filters_are_local(state))

            def score(self, state: Any, pod: Any, node: Any) -> int:
                return 0

        for plugins in ((Asks,), (Asks, Nosy)):
            cluster = beside_defaults(*plugins)
            cluster.apply(make_pod())
            cluster.schedule()
        assert answers == [True, False]

    def test_parallel_work_keeps_the_order_of_its_items(self) -> None:
        def square(n: int) -> int:
            return n * n

        assert handle_of(only(Nosy)).parallelize(square, range(5)) == [0, 1, 4, 9, 16]

    def test_parallel_work_runs_on_the_helper_that_the_driver_gave(self) -> None:
        """Two workers that wait for each other: one after the other they would wait for ever."""
        met = threading.Barrier(2, timeout=10)
        plugins = [Nosy]
        scheduler = Scheduler(
            None,
            clock=VirtualClock(),
            pick=lambda n: 0,
            plugins=plugins,
            parallelize=_threads,
        )
        preemption = scheduler.profiles["default-scheduler"].plugins["DefaultPreemption"]
        assert isinstance(preemption, DefaultPreemption)
        handle = preemption.handle
        assert len(set(handle.parallelize(lambda _: met.wait(), range(2)))) == 2


def _threads(work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, items))


def test_each_profile_has_a_handle_of_its_own() -> None:
    config = config_with([Nosy], defaults=False)
    config["profiles"].append({**config["profiles"][0], "schedulerName": "other"})
    cluster = make_cluster([make_node()], plugins=[Nosy], config=config)
    names = [cluster.plugin(Nosy, profile).handle.logger.name for profile in ("default-scheduler", "other")]
    assert names == ["mooring.plugins.default-scheduler", "mooring.plugins.other"]


def test_the_client_takes_what_a_plugin_has_in_its_hands() -> None:
    class Annotates(Plugin):
        name = "Annotates"

        async def pre_bind(self, state: Any, pod: Any, node_name: str) -> None:
            client, node = self.handle.client, self.handle.snapshot.node(node_name)
            assert client is not None
            assert node is not None
            patched = await client.patch(pod, {"metadata": {"annotations": {"on": node_name}}})
            assert patched.metadata.annotations == {"on": node_name}
            await client.patch(node, {"metadata": {"labels": {"busy": "yes"}}})
            assert (await client.get(node)).metadata.labels["busy"] == "yes"

        async def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
            assert self.handle.client is not None
            await self.handle.client.delete(next(p for p in self.handle.snapshot.pods() if p.name == "old"))

    cluster = make_cluster([make_node("a")], plugins=[Annotates])
    cluster.apply(make_pod("old", node_name="a"), make_pod("new"))
    cluster.schedule()
    assert cluster.pod("new").metadata.annotations == {"on": "a"}
    node = cluster.scheduler.cluster.node("a")
    assert node is not None
    assert node.labels["busy"] == "yes"
    assert [pod.name for pod in cluster.scheduler.cluster.pods()] == ["new"]
