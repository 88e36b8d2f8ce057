"""What containers write takes bounded memory, which is free again when they are gone."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from mooring.sandbox.kubelet import fleet
from mooring.sandbox.kubelet.containers import PodLife
from tests.sandbox.kubelet.kit import Nodes, play

Tree = dict[str, Any]
MANY = 6  # volumes
VOLUMES = [{"name": f"v{number}", "emptyDir": {}} for number in range(MANY)]
CONTAINER: Tree = {
    "name": "main",
    "image": "busybox",
    "command": ["sh", "-c", "sleep 1000000"],
    "volumeMounts": [{"name": f"v{number}", "mountPath": f"/v{number}"} for number in range(MANY)],
}
MEBIBYTE = 2**20


async def run(stage: Nodes, name: str) -> str:
    tree = await stage.run_pod(name, containers=[CONTAINER], volumes=VOLUMES)
    await stage.advance(2)
    return str(tree["metadata"]["uid"])


def write(stage: Nodes, uid: str, path: str) -> bool:
    """Write a mebibyte, and return whether there was room."""
    command = ["dd", "if=/dev/zero", f"of={path}", f"bs={MEBIBYTE - 100}", "count=1"]
    outcome = stage.server.api.containers.execute(uid, "main", command, None, is_dry=False)
    return outcome is not None and outcome.exit_code == 0


def fill(stage: Nodes, uid: str) -> int:
    """Write to all volumes of a pod; return how many mebibytes there was room for."""
    return sum(write(stage, uid, f"/v{volume}/{file}") for volume in range(MANY) for file in range(7))


def test_a_pod_with_many_volumes_writes_no_more_than_its_share() -> None:
    async def scene(stage: Nodes) -> None:
        assert fill(stage, await run(stage, "one")) == 15
        assert fill(stage, await run(stage, "two")) == 15

    play(scene)


def test_a_container_that_is_started_again_does_not_use_its_room_twice() -> None:
    script = (
        f"for i in a b c d e f g; do dd if=/dev/zero of=/tmp/$i bs={MEBIBYTE - 100} count=1; done; exit 1"
    )
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}

    async def scene(stage: Nodes) -> None:
        await stage.run_pod("one", containers=[container])
        await stage.advance(200)
        status = (await stage.status("one"))["containerStatuses"][0]
        assert status["restartCount"] > 3
        assert status["lastState"]["terminated"]["exitCode"] == 1

    play(scene)


def test_the_room_of_a_deleted_pod_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "MOST_OF_CLUSTER", 20 * MEBIBYTE)

    async def scene(stage: Nodes) -> None:
        assert fill(stage, await run(stage, "one")) == 15
        two = await run(stage, "two")
        assert fill(stage, two) == 4
        await stage.delete("pods", "one")
        await stage.advance(60)
        assert fill(stage, two) == 11

    play(scene)


def test_nothing_is_kept_of_deleted_pods_until_the_garbage_collector_runs() -> None:
    def count() -> int:
        return sum(type(each) is PodLife for each in gc.get_objects())

    async def scene(stage: Nodes) -> None:
        before = count()
        write(stage, await run(stage, "one"), "/v0/file")
        stage.server.api.containers.execute(
            (await stage.get("pods", "one"))["metadata"]["uid"], "main", ["cat", "/proc/self/status"], None,
            is_dry=False,
        )  # fmt: skip
        assert count() == before + 1
        await stage.delete("pods", "one")
        await stage.advance(60)
        assert count() == before

    gc.collect()
    gc.disable()
    try:
        play(scene)
    finally:
        gc.enable()
