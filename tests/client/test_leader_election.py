"""Leader election on a small API server in memory, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.kinds import LEASES, ApiResource
from mooring.client.api_errors import ApiError, Unreachable
from mooring.client.event_recorder import EventRecorder
from mooring.client.leader_election import LeaderElector, LeadershipLostError, new_identity
from mooring.client.port import Obj
from tests.client import virtual_time
from tests.client.fake_cluster import FakeCluster, Tree
from tests.client.virtual_time import now
from tests.strategies import examples

EPOCH = 1_893_455_000.0
LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD = 15.0, 10.0, 2.0


class Process:
    """A process that wants to lead, and remembers when it did."""

    def __init__(self, cluster: FakeCluster, name: str, **options: Any) -> None:
        self.name = name
        self.led: list[tuple[float, float]] = []
        self.led_to_the_end = False
        clock = asyncio.get_running_loop().time
        options = {"clock": clock, "wall_clock": lambda: EPOCH + clock(), **options}
        self.elector = LeaderElector(cluster, name, **options)
        self.finish = asyncio.Event()
        self.task = asyncio.create_task(self.elector.run(self._lead))

    async def _lead(self) -> None:
        assert self.leads()
        began = now()
        try:
            await self.finish.wait()
        finally:
            self.led.append((began, now()))
            self.led_to_the_end = self.leads()

    def leads(self) -> bool:
        return self.elector.leading

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


def electing(scenario: Callable[[FakeCluster], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario(FakeCluster())

    virtual_time.run(main())


def lease(cluster: FakeCluster) -> Tree:
    return cluster.objects["leases.coordination.k8s.io", "kube-system", "kube-scheduler"]


# ---- one process


def test_the_first_creates_the_lease_and_renews_it() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        one = Process(cluster, "one")
        await asyncio.sleep(0.1)
        assert one.leads()
        assert lease(cluster)["spec"] == {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "acquireTime": "2030-01-01T00:00:00.000000Z",
            "renewTime": "2030-01-01T00:00:00.000000Z",
        }
        await asyncio.sleep(60)
        assert lease(cluster)["spec"]["acquireTime"] == "2030-01-01T00:00:00.000000Z"
        assert lease(cluster)["spec"]["renewTime"] == "2030-01-01T00:01:00.000000Z"
        assert len(cluster.asked("update")) == 30
        assert cluster.asked("get") == ["leases.coordination.k8s.io kube-system/kube-scheduler"]
        await one.stop()

    electing(scenario)


def test_leading_that_ends_gives_the_lease_back() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        one = Process(cluster, "one")
        await asyncio.sleep(5)
        one.finish.set()
        await one.task
        assert one.led_to_the_end
        assert not one.leads()
        spec = lease(cluster)["spec"]
        assert spec.get("holderIdentity", "") == ""
        assert spec["leaseDurationSeconds"] == 1

    electing(scenario)


def test_the_lease_is_kept_while_work_is_brought_to_an_end() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        finished: list[bool] = []

        async def lead() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(60)  # binds in flight
                finished.append(elector.leading)

        clock = asyncio.get_running_loop().time
        elector = LeaderElector(cluster, "one", clock=clock)
        task = asyncio.create_task(elector.run(lead))
        await asyncio.sleep(5)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert finished == [True]
        assert lease(cluster)["spec"].get("holderIdentity", "") == ""

    electing(scenario)


def test_what_goes_wrong_while_leading_comes_out_and_the_lease_is_given_back() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async def lead() -> None:
            raise KeyError("a bug")

        with pytest.raises(KeyError, match="a bug"):
            await LeaderElector(cluster, "one").run(lead)
        assert lease(cluster)["spec"].get("holderIdentity", "") == ""

    electing(scenario)


def test_a_leader_out_of_reach_stops_at_the_renew_deadline() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        one = Process(cluster, "one")
        await asyncio.sleep(0.1)

        async def silence(verb: str, done: bool) -> None:
            await asyncio.sleep(10_000)

        cluster.meddle = silence
        with pytest.raises(LeadershipLostError, match="kube-system/kube-scheduler: leadership lost"):
            await one.task
        ((began, ended),) = one.led
        assert ended - began == pytest.approx(RETRY_PERIOD + RENEW_DEADLINE)

    electing(scenario)


def test_a_lost_lease_is_not_given_back_while_cancelled_requests_may_take_effect() -> None:
    """Found by `python -m tests.faults --real`: bindings were carried out after the lease was released."""

    async def scenario(cluster: FakeCluster) -> None:
        one = Process(cluster, "one")
        await asyncio.sleep(0.1)
        cluster.refusals["update", "leases"] = Unreachable("fake", "slow")
        while one.leads():
            await asyncio.sleep(0.1)
        cluster.refusals.clear()
        with pytest.raises(LeadershipLostError):
            await one.task
        assert lease(cluster)["spec"]["holderIdentity"] == "one"

    electing(scenario)


def test_a_short_trouble_is_survived(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        one = Process(cluster, "one")
        await asyncio.sleep(20.1)
        cluster.refusals["update", "leases"] = ApiError(503, "ServiceUnavailable", "starting")
        await asyncio.sleep(9)
        cluster.refusals.clear()
        await asyncio.sleep(60)
        assert one.leads()
        assert caplog.text.count("cannot get or renew lease kube-system/kube-scheduler: starting") == 1
        await one.stop()

    electing(scenario)


def test_leading_is_over_by_the_clock_even_where_nobody_noticed() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        held_up = 0.0
        clock = asyncio.get_running_loop().time
        one = Process(cluster, "one", clock=lambda: clock() + held_up)
        await asyncio.sleep(1)
        assert one.leads()
        held_up = 12.0  # the process got no time to run, as when the machine was asleep
        assert not one.leads()
        assert one.elector.check() == ""
        held_up = 40.0
        assert one.elector.check() == "failed election to renew leadership on lease kube-scheduler"
        with pytest.raises(LeadershipLostError):
            await one.task
        assert one.elector.check() == ""

    electing(scenario)


def test_a_missing_permission_is_told_once_and_in_full(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.refusals["get", "leases"] = ApiError(403, "Forbidden", "User cannot get leases")
        one = Process(cluster, "one")
        await asyncio.sleep(60)
        assert not one.leads()
        assert caplog.text.count('User cannot get leases; grant the verbs "get", "create" and "update"') == 1
        cluster.refusals.clear()
        await asyncio.sleep(5)
        assert one.leads()
        await one.stop()

    electing(scenario)


def test_what_others_wrote_into_the_lease_is_kept() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        meta = {"name": "kube-scheduler", "namespace": "kube-system", "labels": {"team": "a"}}
        cluster.put(LEASES, {"metadata": meta, "spec": {"leaseTransitions": 7}})
        one = Process(cluster, "one")
        await asyncio.sleep(10)
        assert lease(cluster)["metadata"]["labels"] == {"team": "a"}
        assert lease(cluster)["spec"]["leaseTransitions"] == 8
        await one.stop()
        assert lease(cluster)["spec"]["leaseTransitions"] == 8

    electing(scenario)


def test_events_tell_who_leads() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        recorder = EventRecorder(cluster, "default-scheduler", "host")
        posting = asyncio.create_task(recorder.run())
        one = Process(cluster, "one", recorder=recorder)
        await asyncio.sleep(5)
        await one.stop()
        await recorder.close(5)
        await posting
        events = [tree for key, tree in cluster.objects.items() if key[0] == "events.events.k8s.io"]
        assert [event["note"] for event in events] == ["one became leader", "one stopped leading"]
        assert events[0]["reason"] == "LeaderElection"
        assert events[0]["regarding"]["kind"] == "Lease"
        assert events[0]["metadata"]["namespace"] == "kube-system"

    electing(scenario)


@pytest.mark.parametrize(
    ("timing", "complaint"),
    [
        ({"lease_duration": 10.0}, "leaseDuration: found 10s, expected more than renewDeadline"),
        ({"retry_period": 9.0}, "renewDeadline: found 10s, expected more than 1.2 times"),
    ],
)
def test_invalid_timing_is_rejected(timing: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        LeaderElector(FakeCluster(), new_identity(), **timing)


# ---- several


def test_a_second_waits_and_takes_over_at_once_when_the_lease_is_given_back() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        one = Process(cluster, "one")
        await asyncio.sleep(1)
        two = Process(cluster, "two")
        await asyncio.sleep(100)
        assert not two.leads()
        assert two.elector.leader == "one"
        await one.stop()
        await asyncio.sleep(RETRY_PERIOD * 2.2)
        assert two.leads()
        assert lease(cluster)["spec"]["leaseTransitions"] == 1
        await two.stop()

    electing(scenario)


def test_a_second_takes_over_within_the_lease_time_when_the_first_is_gone() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        one = Process(cluster, "one")
        await asyncio.sleep(1)
        two = Process(cluster, "two")
        await asyncio.sleep(100)
        renewed = lease(cluster)["spec"]["renewTime"]
        cluster.refusals["get", "leases"] = Unreachable("fake", "killed")  # so that it cannot release
        await one.stop()
        cluster.refusals.clear()
        assert lease(cluster)["spec"]["renewTime"] == renewed
        died = now()
        while not two.leads():
            await asyncio.sleep(0.1)
        assert LEASE_DURATION - RETRY_PERIOD <= now() - died <= LEASE_DURATION + 2 * 2.2 * RETRY_PERIOD
        await two.stop()

    electing(scenario)


def test_a_leader_that_finds_another_in_the_lease_stops_at_once() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        one = Process(cluster, "one")
        await asyncio.sleep(5)
        usurped = {**lease(cluster)["spec"], "holderIdentity": "usurper"}
        cluster.put(LEASES, {**lease(cluster), "spec": usurped})
        before = now()
        with pytest.raises(LeadershipLostError):
            await one.task
        assert now() - before <= RETRY_PERIOD
        assert not one.led_to_the_end
        assert lease(cluster)["spec"] == usurped

    electing(scenario)


def test_a_deleted_lease_is_left_to_its_holder_to_make_anew() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        one = Process(cluster, "one")
        await asyncio.sleep(1)
        others = [Process(cluster, f"other-{number}") for number in range(5)]
        await asyncio.sleep(20)
        cluster.remove(LEASES, "kube-scheduler", "kube-system")
        for _ in range(300):
            await asyncio.sleep(0.1)
            assert one.leads()
            assert not any(other.leads() for other in others)
        assert lease(cluster)["spec"]["holderIdentity"] == "one"
        for process in (*others, one):
            await process.stop()

    electing(scenario)


# ---- whatever happens


class Connection(FakeCluster):
    """One process's way to a server that others use too. Requests may take long, get lost, or be carried out
    although the answer gets lost or whoever sent them has given up waiting."""

    def __init__(self, server: FakeCluster, chance: random.Random) -> None:
        super().__init__()
        self._server = server
        self._chance = chance
        self.loss = self.delay = 0.0

    async def _through(self, request: Callable[[], Awaitable[Obj]]) -> Obj:
        async def carried_out() -> Obj:
            await asyncio.sleep(self._chance.random() * self.delay)
            if self._chance.random() < self.loss:
                raise Unreachable("fake", "lost on the way")
            try:
                return await request()
            finally:
                await asyncio.sleep(self._chance.random() * self.delay)
                if self._chance.random() < self.loss:
                    raise Unreachable("fake", "answer lost")

        task = asyncio.create_task(carried_out())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def get(
        self, resource: ApiResource[Obj], name: str, namespace: str = "", subresource: str = ""
    ) -> Obj:
        return await self._through(lambda: self._server.get(resource, name, namespace))

    async def create(self, resource: ApiResource[Obj], body: Any, namespace: str = "") -> Obj:
        return await self._through(lambda: self._server.create(resource, body, namespace))

    async def update(
        self, resource: ApiResource[Obj], name: str, body: Any, namespace: str = "", subresource: str = ""
    ) -> Obj:
        return await self._through(lambda: self._server.update(resource, name, body, namespace))


STEP = st.tuples(
    st.integers(0, 2),  # which process
    st.sampled_from(["well", "well", "lossy", "slow", "cut", "crash", "stop"]),
    st.sampled_from([0.3, 2.0, 7.0, 16.0]),  # and how long until the next step
)


@examples(60)
@given(
    st.integers(2, 3),
    st.lists(STEP, max_size=25),
    st.lists(st.tuples(st.floats(0.9, 1.1), st.floats(-1e6, 1e6)), min_size=3, max_size=3),
    st.integers(0, 2**32),
)
def test_two_never_lead_at_once_and_somebody_does_in_the_end(
    count: int, steps: list[tuple[int, str, float]], clocks: list[tuple[float, float]], seed: int
) -> None:
    async def main() -> None:
        random.seed(seed)
        server, chance = FakeCluster(), random.Random(seed)
        loop = asyncio.get_running_loop()
        connections = [Connection(server, chance) for _ in range(count)]
        processes: list[Process] = []

        def start(number: int) -> Process:
            rate, skew = clocks[number]
            return Process(
                connections[number],
                f"process {number} of {loop.time()}",
                clock=lambda: loop.time() * rate,
                wall_clock=lambda: EPOCH + skew + loop.time() / rate,
            )

        async def let_time_pass(duration: float) -> None:
            for _ in range(int(duration / 0.1)):
                await asyncio.sleep(0.1)
                assert sum(process.leads() for process in processes) <= 1
                for number, process in enumerate(processes):
                    if process.task.done():  # as a Deployment does
                        assert isinstance(process.task.exception(), LeadershipLostError)
                        processes[number] = start(number)

        processes.extend(start(number) for number in range(count))
        for number, step, duration in steps:
            if number < count:
                await happen(connections[number], processes[number], step)
                if processes[number].task.cancelled():
                    processes[number] = start(number)
            await let_time_pass(duration)
        for connection in connections:
            connection.loss = connection.delay = 0.0
        await let_time_pass(40)
        assert sum(process.leads() for process in processes) == 1
        for process in processes:
            await process.stop()

    virtual_time.run(main())


async def happen(connection: Connection, process: Process, step: str) -> None:
    if step == "crash":
        connection.loss = 1.0
        await process.stop()
    if step == "stop":
        await process.stop()
    connection.loss = {"lossy": 0.5, "cut": 1.0}.get(step, 0.0)
    connection.delay = 8.0 if step == "slow" else 0.0
