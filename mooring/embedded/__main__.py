"""python -m mooring.embedded: an API server to try things on, until Ctrl-C."""

from __future__ import annotations

import asyncio

from mooring.embedded.server import EmbeddedServer


async def _serve() -> None:
    async with EmbeddedServer() as server:
        print(f"export KUBECONFIG={server.kubeconfig}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(_serve())
    except KeyboardInterrupt:
        print()
