"""What the real kubectl shows of the embedded server, compared with what it shows of a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tests.sandbox.apiserver.kit import Running, running
from tests.sandbox.apiserver.kubectl import Kubectl, needs_kubectl
from tests.sandbox.apiserver.scene import NAMESPACE, plant, plant_all, recorded_commands, shown

pytestmark = needs_kubectl

COMMANDS = recorded_commands()


def in_its_loop(server: Running, work: Callable[[], object]) -> None:
    """Do something where the server does everything."""

    async def run() -> None:
        work()

    asyncio.run_coroutine_threadsafe(run(), server.loop).result(30)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server that holds the objects of the scene as a real one held them."""
    with running() as found:
        in_its_loop(found, lambda: plant_all(found.server.api))
        yield found


@pytest.fixture(scope="module")
def kubectl(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return Kubectl(server.server.kubeconfig, tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("command", [one for one in COMMANDS.shown if one.startswith("get")])
def test_it_shows_what_it_shows_of_a_real_server(kubectl: Kubectl, command: str) -> None:
    page = kubectl("-n", NAMESPACE, *command.split(), code=None)
    assert shown(page) == COMMANDS.shown[command]


@pytest.mark.parametrize("command", [one for one in COMMANDS.shown if not one.startswith("get")])
def test_it_describes_and_explains_as_with_a_real_server(kubectl: Kubectl, command: str) -> None:
    """Here kubectl itself words what it shows, so only the one that was recorded can be compared."""
    if kubectl.version != COMMANDS.version:
        pytest.skip(f"recorded with kubectl {COMMANDS.version}, this one is {kubectl.version}")
    page = kubectl("-n", NAMESPACE, *command.split(), code=None)
    assert shown(page) == COMMANDS.shown[command]


def test_a_watch_shows_what_happens(server: Running, kubectl: Kubectl) -> None:
    api = server.server.api
    pods = api.registry.find("", "v1", "pods")
    assert pods is not None
    born = {"creationTimestamp": api.now(), "namespace": "watched", "uid": "u"}
    first = {
        "metadata": {"name": "first", **born},
        "spec": {"containers": [{}]},
        "status": {"phase": "Pending"},
    }
    in_its_loop(server, lambda: plant(api, pods, first))
    watching = kubectl.start("get", "pods", "-n", "watched", "-w")
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline().split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        assert watching.stdout.readline().split()[:4] == ["first", "0/1", "Pending", "0"]
        in_its_loop(server, lambda: plant(api, pods, {**first, "status": {"phase": "Running"}}))
        assert watching.stdout.readline().split()[:4] == ["first", "0/1", "Running", "0"]
    finally:
        watching.terminate()
        watching.communicate(timeout=30)
