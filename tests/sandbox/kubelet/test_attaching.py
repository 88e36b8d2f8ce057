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
        self.uid = uid

    @classmethod
    async def run(cls, stage: Nodes, *command: str, **fields: Any) -> Container:
        spec = {"name": "main", "image": "busybox", "command": [*command], **fields}
        pod = await stage.run_pod(containers=[spec], restartPolicy="Never")
        return cls(stage, pod["metadata"]["uid"])

    @property
    def printed(self) -> list[tuple[float, str]]:
        outcome = self._stage.server.api.containers.follow(self.uid, "main").outcome
        return [(round(at), text) for at, text in outcome.output]

    async def enter(self, text: str | None) -> None:
        self._stage.server.api.containers.enter(self.uid, "main", text)
        await self._stage.advance(1)

    async def end(self, exit_code: int) -> None:
        self._stage.server.api.containers.end(self.uid, "main", exit_code)
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


@pytest.mark.parametrize("command", [["sh"], []])  # the shell of the image
def test_a_shell_runs_until_it_is_left(command: list[str]) -> None:
    async def scene(stage: Nodes) -> None:
        shell = await Container.run(stage, *command, stdin=True, tty=True)
        await stage.advance(10)
        assert await stage.phase() == "Running"
        await shell.end(3)
        status = await stage.status()
        assert status["phase"] == "Failed"
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3

    play(scene)


def test_a_shell_ends_with_an_error_at_input_whose_effect_is_not_known() -> None:
    async def scene(stage: Nodes) -> None:
        shell = await Container.run(stage, "sh", stdin=True, stdinOnce=True)
        await shell.enter("echo one\nmake test\n")
        await shell.enter(None)
        status = await stage.status()
        end = status["containerStatuses"][0]["state"]["terminated"]
        assert (status["phase"], end["exitCode"]) == ("Failed", 127)
        run = stage.server.api.runs.find(shell.uid, "main", end["startedAt"])
        assert run is not None
        assert run.outcome.output[0][1].startswith("cannot run the input")

    play(scene)
