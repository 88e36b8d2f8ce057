"""python -m mooring.embedded: an API server to try things on, until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal

from mooring.embedded.server import EmbeddedServer


async def _serve() -> None:
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_stop.set)
    async with EmbeddedServer() as server:
        print(f"export KUBECONFIG={server.kubeconfig}", flush=True)
        await asked_to_stop.wait()


if __name__ == "__main__":
    asyncio.run(_serve())
