"""The end of a command by a signal."""

from __future__ import annotations

import signal
import subprocess
import sys

SCRIPT = """
import asyncio, signal, sys, threading
from mooring.cli.event_loop import run_until_signal

async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    working = asyncio.create_task(asyncio.to_thread(threading.Event().wait))
    await asyncio.sleep(0)
    print("ready", flush=True)
    await stop.wait()
    return 3

sys.exit(run_until_signal(main()))
"""


def test_threads_that_are_at_work_do_not_delay_it() -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 3
        finally:
            process.kill()
