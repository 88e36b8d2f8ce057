"""Running programs: a cancellation is never lost."""

from __future__ import annotations

import asyncio

import pytest

from mooring.client.credentials import program
from mooring.client.credentials.program import Printed, run_program


@pytest.mark.parametrize("turns", range(3))
def test_a_cancellation_as_the_program_ends_is_not_lost(monkeypatch: pytest.MonkeyPatch, turns: int) -> None:
    """`asyncio.wait_for` of Python 3.11 drops a cancellation that arrives with the result."""
    ended: asyncio.Future[None]
    calls = iter(["times out", "ends"])

    async def finish(process: asyncio.subprocess.Process, interactive: bool) -> Printed:
        if next(calls) == "times out":
            await process.wait()
            raise TimeoutError
        await ended
        return Printed(0, b"", b"")

    async def main() -> None:
        nonlocal ended
        ended = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(run_program("true", [], {}, False))
        while not ended._callbacks:
            await asyncio.sleep(0.001)
        ended.set_result(None)
        for _ in range(turns):
            await asyncio.sleep(0)
        cancelled = running.cancel()
        with pytest.raises(asyncio.CancelledError if cancelled else TimeoutError):
            await running

    monkeypatch.setattr(program, "_finish", finish)
    asyncio.run(main())
