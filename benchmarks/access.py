"""A kubeconfig as aiohttp wants it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from mooring.client.credentials import load_credentials


@asynccontextmanager
async def session_for(kubeconfig: Path, connections: int) -> AsyncIterator[aiohttp.ClientSession]:
    """A session with the server of the current context, as its user. It lasts as long as a token does."""
    credentials = load_credentials(str(kubeconfig))
    await credentials.renew()
    lines = credentials.access.headers.decode().splitlines()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    headers |= {name: value for name, _, value in (line.partition(": ") for line in lines)}
    async with aiohttp.ClientSession(
        credentials.server,
        headers=headers,
        connector=aiohttp.TCPConnector(ssl=credentials.access.tls or False, limit=connections),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        yield session
