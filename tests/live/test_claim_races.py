"""Schedulers that race for devices: the API server's audit log proves that each device had one user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.live.control_plane import ControlPlane
from tests.live.device_kit import Devices, double_allocations, double_uses, held_devices, users, with_claim
from tests.live.replica import Replica, configuration, wait_for
from tests.live.scene import Scene, names

ONE, TWO, KUBE = "mooring-race-1", "mooring-race-2", "kube-scheduler-race"
ROUNDS = 8

pytestmark = pytest.mark.usefixtures("claim_controller")


@pytest.fixture
def devices(scene: Scene) -> Devices:
    return Devices(scene)


@pytest.fixture
def two_schedulers(scene: Scene, kubeconfig: Path) -> Iterator[list[Replica]]:
    with ExitStack() as stack:
        replicas = [
            stack.enter_context(Replica(scene.cluster.folder, configuration(kubeconfig, name)))
            for name in (ONE, TWO)
        ]
        yield [replica.ready() for replica in replicas]
        assert [replica.end() for replica in replicas] == [0, 0]


def race(scene: Scene, devices: Devices, contenders: dict[str, str]) -> str:
    """Wait until one of the pods is bound and the other is rejected; the winner."""

    def look() -> list[str]:
        return [name for name in contenders if scene.node_of(name)]

    winner = wait_for(look, "one is bound")[0]
    loser = next(name for name in contenders if name != winner)
    scene.refused(loser)
    wait_for(lambda: not held_devices(devices.get(loser)), "the other has no device")
    assert scene.node_of(loser) == ""
    return winner


def test_two_schedulers_and_one_device(
    scene: Scene, devices: Devices, two_schedulers: list[Replica], control_plane: ControlPlane
) -> None:
    """Each round both wake up to a pod of their own, and one device for the two of them."""
    devices.publish(scene.node("a"), 1)
    for i in range(ROUNDS):
        contenders = {f"{name}-{i}": name for name in (ONE, TWO)}
        with two_schedulers[0].asleep(), two_schedulers[1].asleep():
            for name, scheduler in contenders.items():
                devices.claim(name)
                scene.pod(name, schedulerName=scheduler, **with_claim(name))
        winner = race(scene, devices, contenders)
        assert held_devices(devices.get(winner)) == ["gpu-0"]
        for name in sorted(contenders, key=lambda name: name == winner):
            scene.delete(name)
        devices.deallocated(winner)
    assert double_uses(control_plane, scene.namespace) == []
    overlaps = double_allocations(control_plane, scene.namespace)
    print(f"{len(overlaps)} of {ROUNDS} rounds had an allocation that was withdrawn")


def test_two_schedulers_and_a_shared_claim(
    scene: Scene, devices: Devices, two_schedulers: list[Replica], control_plane: ControlPlane
) -> None:
    """The claim is allocated once; all pods of both schedulers go where its device is."""
    for name in "abcd":
        devices.publish(scene.node(name), 1)
    devices.claim("shared")
    pods = list(names("pod", 20))
    with two_schedulers[0].asleep(), two_schedulers[1].asleep():
        for i, name in enumerate(pods):
            scene.pod(name, schedulerName=(ONE, TWO)[i % 2], **with_claim("shared"))
    assert len(set(scene.bound(*pods))) == 1
    assert sorted(users(devices.get("shared"))) == pods
    assert len({write.devices for write in control_plane.claim_writes(scene.namespace)}) == 1


def test_a_claim_shared_with_kube_scheduler(
    scene: Scene, devices: Devices, kubeconfig: Path, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Whichever allocates the claim first, the other joins it; kube-scheduler knows nothing of Mooring."""
    if not control_plane.has("kube-scheduler"):
        pytest.skip("races with kube-scheduler: put its binary into KUBEBUILDER_ASSETS")
    for name in "abcd":
        devices.publish(scene.node(name), 1)
    config = tmp_path / "kube-scheduler.yaml"
    config.write_text(yaml.safe_dump(configuration(control_plane.kubeconfig(), KUBE)))
    with control_plane.kube_scheduler(config), Replica(tmp_path, configuration(kubeconfig, ONE)) as mooring:
        mooring.ready()
        scene.pod("warm-up", schedulerName=KUBE)
        scene.bound("warm-up")
        for turn in range(ROUNDS):
            claim = f"shared-{turn}"
            pods = [f"{claim}-{i}" for i in range(6)]
            devices.claim(claim)
            for i, name in enumerate(pods):
                scene.pod(name, schedulerName=(ONE, KUBE)[i % 2], **with_claim(claim))
            assert len(set(scene.bound(*pods))) == 1
            assert sorted(users(devices.get(claim))) == pods
            for name in pods:
                scene.delete(name)
            devices.deallocated(claim)
        assert mooring.end() == 0
    assert double_allocations(control_plane, scene.namespace) == []
