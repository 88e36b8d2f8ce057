"""Containers that read what clients enter, and clients that see what they print."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.sandbox.programs.executing import NotRunningError
from tests.sandbox.kubelet.kit import Nodes, play

Tree = dict[str, Any]
READER = "echo -n read: && cat && echo closed"


class Container:
    """The only container of a pod, as a client attaches to it."""

    def __init__(self, stage: Nodes, uid: str) -> None:
        self._stage = stage
        self._uid = uid

    @classmethod
    async def run(cls, stage: Nodes, *command: str, **fields: Any) -> Container:
        spec = {"name": "main", "image": "busybox", "command": [*command], **fields}
        pod = await stage.run_pod(containers=[spec], restartPolicy="Never")
        return cls(stage, pod["metadata"]["uid"])

    @property
    def printed(self) -> list[tuple[float, str]]:
        outcome = self._stage.server.api.containers.follow(self._uid, "main").outcome
        return [(round(at), text) for at, text in outcome.output]

    async def enter(self, text: str | None) -> None:
        self._stage.server.api.containers.enter(self._uid, "main", text)
        await self._stage.advance(1)

    async def end(self, exit_code: int) -> None:
        self._stage.server.api.containers.end(self._uid, "main", exit_code)
        await self._stage.advance(1)


def test_a_container_reads_what_is_entered_as_it_comes() -> None:
    async def scene(stage: Nodes) -> None:
        reader = await Container.run(stage, "sh", "-c", READER, stdin=True, stdinOnce=True)
        await stage.advance(2)
        assert reader.printed == [(0, "read:")]
        await reader.enter("one\n")
        await reader.enter("two\n")
        assert reader.printed == [(0, "read:"), (2, "one\n"), (3, "two\n")]
        assert await stage.phase() == "Running"
        await reader.enter(None)
        assert await stage.phase() == "Succeeded"
        with pytest.raises(NotRunningError):
            await reader.enter("three\n")

    play(scene)


@pytest.mark.parametrize("command", ["cat", "sh", "sort"])
def test_a_container_without_input_is_at_its_end_at_once(command: str) -> None:
    async def scene(stage: Nodes) -> None:
        await Container.run(stage, command)
        await stage.advance(1)
        assert await stage.phase() == "Succeeded"

    play(scene)


def test_a_shell_runs_until_it_is_left() -> None:
    async def scene(stage: Nodes) -> None:
        shell = await Container.run(stage, "sh", stdin=True, tty=True)
        await stage.advance(10)
        assert await stage.phase() == "Running"
        await shell.end(3)
        status = await stage.status()
        assert status["phase"] == "Failed"
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3

    play(scene)
