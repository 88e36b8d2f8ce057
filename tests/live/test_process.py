"""The process around a scheduler, as far as its endpoints go: what they say before anything is known."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.config import LoadedConfig, default_config
from mooring.core.build import registry_with
from mooring.process.scheduler_process import SchedulerProcess, Settings
from mooring.serving.settings import EndpointError, EndpointSettings
from tests.live.control_plane import free_port
from tests.serving.kit import Reply, ask, run

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {token: t}}]
"""

Scenario = Callable[[SchedulerProcess], Awaitable[None]]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """Of an API server that is not there."""
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return str(path)


def settings(kubeconfig: str, **endpoints: Any) -> Settings:
    serve = {"bind_address": "127.0.0.1", "secure_port": free_port(), **endpoints}
    return Settings(
        config=LoadedConfig(default_config()),
        registry=registry_with(),
        kubeconfig=kubeconfig,
        endpoints=EndpointSettings(**serve),
    )


async def asked(process: SchedulerProcess, path: str, token: str = "") -> Reply:
    assert process.endpoints is not None
    return await asyncio.to_thread(ask, process.endpoints.port, path, token)


def running(given: Settings, scenario: Scenario) -> int:
    """Run a process, and a scenario beside it; the exit code."""

    async def main() -> int:
        process = SchedulerProcess(given)
        working = asyncio.create_task(process.run())
        try:
            await scenario(process)
        finally:
            process.end("the test is over")
        return await working

    return run(main())


def test_without_an_api_server_it_is_alive_and_not_ready(kubeconfig: str) -> None:
    async def scenario(process: SchedulerProcess) -> None:
        assert (await asked(process, "/healthz?verbose")).text == (
            "[+]leaderElection ok\nhealthz check passed\n"
        )
        assert (await asked(process, "/livez")).text == "ok"
        assert (await asked(process, "/readyz")).text == (
            "[+]leaderElection ok\n[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\n"
            "readyz check failed\n"
        )
        assert (await asked(process, "/metrics")).status == 401
        assert (await asked(process, "/metrics", "token")).refusal[:2] == (500, "InternalError")

    assert running(settings(kubeconfig), scenario) == 0


def test_a_process_that_ends_is_not_ready(kubeconfig: str) -> None:
    async def main() -> None:
        process = SchedulerProcess(settings(kubeconfig))
        assert process.endpoints is not None
        serving = asyncio.create_task(process.endpoints.run())
        process.end("the test wants it")
        answer = await asked(process, "/readyz?exclude=sched-handler-sync")
        assert (answer.status, "[-]shutdown failed: reason withheld" in answer.text) == (500, True)
        assert (await asked(process, "/livez")).status == 200
        serving.cancel()
        await asyncio.wait({serving})

    run(main())


def test_port_0_is_no_port(kubeconfig: str) -> None:
    async def scenario(process: SchedulerProcess) -> None:
        assert process.endpoints is None

    assert running(settings(kubeconfig, secure_port=0), scenario) == 0


def test_a_lookup_that_must_not_fail_ends_the_process_before_it_begins(kubeconfig: str) -> None:
    async def scenario(process: SchedulerProcess) -> None:
        await asyncio.sleep(0)

    strict = settings(kubeconfig, authentication_tolerate_lookup_failure=False)
    with pytest.raises(EndpointError, match=r"configmap kube-system/extension-apiserver-authentication: .*"):
        running(strict, scenario)
