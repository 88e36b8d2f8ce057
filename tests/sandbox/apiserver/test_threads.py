"""Types are examined once, whatever number of threads reads objects into them."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import asyncio, sys, threading
from mooring.sandbox.apiserver.kinds import sieve
from mooring.sandbox.apiserver.server import EmbeddedServer

async def types():
    async with EmbeddedServer() as server:
        return [resource.codec.type for resource in server.api.registry]

served = asyncio.run(types())
sieve.sieve_of.cache_clear()
sieve._structs.clear()  # as they are before the first object of each type
sys.setswitchinterval(1e-6)
together = threading.Barrier(4)

def read():
    for type in served:
        together.wait()
        assert not sieve.sieve_of(type).knows({"metadata": {"name": "a"}, "unknown": 1})

threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_may_read_the_first_objects_of_a_type_at_once() -> None:
    """In a process of its own: msgspec crashes if it is used wrongly."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
