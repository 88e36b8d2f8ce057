"""Plugins that take long, in attempts and elsewhere: the rest of the process goes on, and it ends when asked
to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from mooring.config.enabling import config_with
from mooring.config.load import from_object
from mooring.core.build import registry_with
from mooring.framework import CycleState, NodeInfo, Plugin, PodInfo
from mooring.process.scheduler_process import SchedulerProcess, Settings
from mooring.serving.settings import EndpointSettings
from tests.live.control_plane import free_port
from tests.live.replica import Replica, wait_for
from tests.sandbox.apiserver.kit import Running, pod
from tests.sandbox.apiserver.kit import running as api_server
from tests.serving.kit import ask, run

T = TypeVar("T")

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
PODS = "/api/v1/namespaces/default/pods"
NODE = {
    "metadata": {"name": "n0"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}
ELECTION = {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "100ms"}


class Holding(Plugin):
    """Keeps the interpreter busy with a pod until it is let go."""

    name = "Busy"
    begun = threading.Event()
    let_go = threading.Event()

    def hold(self, pod: PodInfo) -> None:
        if pod.name == "p":
            self.begun.set()
            while not self.let_go.is_set():
                pass


class Busy(Holding):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> None:
        self.hold(pod)


class BusyInQueue(Holding):
    def pre_enqueue(self, pod: PodInfo) -> None:
        self.hold(pod)


class BusyBinding(Holding):
    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.hold(pod)


@pytest.fixture
def server() -> Iterator[Running]:
    Busy.begun.clear()
    Busy.let_go.clear()
    with api_server() as server:
        server.ask("POST", "/api/v1/nodes", NODE)
        server.ask("POST", PODS, pod("p", tolerations=[{"operator": "Exists"}]))
        try:
            yield server
        finally:
            Busy.let_go.set()


def scheduling(
    server: Running,
    scenario: Callable[[SchedulerProcess], Awaitable[None]],
    plugin: type[Plugin] = Busy,
) -> int:
    """Run a scheduler process with the plugin, and a scenario once it filters; return the exit code."""
    config = from_object({**config_with([plugin]), "leaderElection": ELECTION})

    async def main() -> int:
        process = SchedulerProcess(
            Settings(
                config=config,
                registry=registry_with([plugin]),
                kubeconfig=str(server.server.kubeconfig),
                endpoints=EndpointSettings(bind_address="127.0.0.1", secure_port=free_port()),
            )
        )
        working = asyncio.create_task(process.run())
        await until(Busy.begun.is_set)
        try:
            await scenario(process)
        finally:
            process.end("the test is over")
        return await working

    return run(main())


async def until(look: Callable[[], T]) -> T:
    while not (found := await asyncio.to_thread(look)):
        await asyncio.sleep(0.01)
    return found


def renewals(server: Running) -> str:
    renewed: str = server.ask("GET", LEASE).tree.get("spec", {}).get("renewTime", "")
    return renewed


def renewed_since(server: Running, before: str) -> bool:
    return renewals(server) != before


def node_of(server: Running, name: str = "p") -> str:
    node_name: str = server.ask("GET", f"{PODS}/{name}").tree["spec"].get("nodeName", "")
    return node_name


@pytest.mark.parametrize("plugin", [Busy, BusyInQueue, BusyBinding])
def test_the_lease_is_renewed_and_requests_are_answered(server: Running, plugin: type[Plugin]) -> None:
    async def scenario(process: SchedulerProcess) -> None:
        assert process.endpoints is not None
        for _ in range(2):
            before = await asyncio.to_thread(renewals, server)
            await until(partial(renewed_since, server, before))
        for path in ("/healthz", "/readyz"):
            assert (await asyncio.to_thread(ask, process.endpoints.port, path)).status == 200
        assert process.may_bind()
        Busy.let_go.set()
        assert await until(lambda: node_of(server)) == "n0"

    assert scheduling(server, scenario, plugin) == 0


@pytest.mark.slow
def test_it_ends_without_the_attempt(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(process: SchedulerProcess) -> None:
        """The plugin is not let go before the process has ended."""

    assert scheduling(server, scenario) == 0
    assert "a scheduling attempt does not end; stopping without it" in caplog.text
    assert server.ask("GET", LEASE).tree["spec"].get("holderIdentity", "") == ""  # given back
    assert node_of(server) == ""


@pytest.mark.slow
def test_what_was_decided_before_is_bound_at_the_end(server: Running) -> None:
    server.ask("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
    server.ask("POST", PODS, pod("earlier", tolerations=[{"operator": "Exists"}]))

    class Waiting(Busy):
        """On the way of the earlier pod to its node, the attempt begins that does not end."""

        async def pre_bind(self, state: CycleState, pod_info: PodInfo, node_name: str) -> None:
            busy = pod("p", tolerations=[{"operator": "Exists"}])
            await asyncio.to_thread(server.ask, "POST", PODS, busy)
            await until(self.begun.is_set)

    async def scenario(process: SchedulerProcess) -> None:
        """The plugin is not let go before the process has ended."""

    assert scheduling(server, scenario, Waiting) == 0
    assert (node_of(server, "earlier"), node_of(server)) == ("n0", "")


PLUGIN = """
from mooring.framework import Plugin

class Endless(Plugin):
    name = "Endless"

    def {point}(self, *args):
        print("called", flush=True)
        while True:
            pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("point", ["filter", "pre_enqueue"])
def test_sigterm_ends_a_process_whose_plugin_never_does(
    server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    (tmp_path / "endless.py").write_text(PLUGIN.format(point=point))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Endless"}]}}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(server.server.kubeconfig)},
        "profiles": [profile],
    }
    with Replica(tmp_path, config, "--plugin=endless:Endless") as replica:
        replica.says("called")
        before = renewals(server)
        wait_for(partial(renewed_since, server, before), "the lease is renewed")
        assert replica.end() == 0
