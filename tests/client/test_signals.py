"""The end of a process by a signal."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, sys
from mooring.client import signals
from mooring.client.signals import end_by_signals

async def main():
    signals.PATIENCE = 0.5
    ended = asyncio.get_running_loop().create_future()
    with end_by_signals(ended.set_result):
        print("ready", flush=True)
        while sys.argv[1] == "blocked":
            pass
        print(await ended, flush=True)
        await asyncio.sleep(1)

runner = asyncio.Runner(loop_factory=__import__(sys.argv[2]).new_event_loop)
runner.run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize(("state", "code"), [("idle", 0), ("blocked", 128 + signal.SIGTERM)])
def test_a_blocked_loop_ends_with_the_process(state: str, code: int, loop: str) -> None:
    """One that responds has all the time it needs."""
    pytest.importorskip(loop)
    command = [sys.executable, "-c", SCRIPT, state, loop]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGTERM)
            output, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == code
    assert output == ("SIGTERM\n" if state == "idle" else "")
    assert errors == ("the event loop is blocked; exiting without it\n" if state == "blocked" else "")
