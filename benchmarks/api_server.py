"""The API server that a benchmark runs on: one of its own, fresh for every run, or one that is given.

What is created on a given one is labelled, and deleted afterwards.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from benchmarks.access import session_for
from tests.live.control_plane import ControlPlane, assets

NAMESPACE = "mooring-benchmark"
LABELS = {"mooring-benchmark": "true"}
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODES = "/api/v1/nodes"


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str


class _Object(msgspec.Struct):
    metadata: _Metadata


class _WatchEvent(msgspec.Struct):
    type: str
    object: _Object


@contextmanager
def control_plane(folder: Path, api_server_flags: Sequence[str] = ()) -> Iterator[Path]:
    """A control plane of our own, with nothing on it; its kubeconfig."""
    binaries = assets()
    if binaries is None:
        raise SystemExit(
            "no API server: set KUBEBUILDER_ASSETS to a directory with etcd and kube-apiserver "
            "(`setup-envtest use 1.36.x` fetches one), or give --kubeconfig FILE"
        )
    folder.mkdir(parents=True)
    plane = ControlPlane(binaries, folder, api_server_flags)
    try:
        plane.start()
        yield plane.kubeconfig()
    finally:
        plane.stop()
        shutil.rmtree(folder / "etcd", ignore_errors=True)  # a gigabyte each; logs stay


class Api:
    """What benchmarks ask of an API server."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def create_all(self, path: str, objects: Iterable[dict[str, Any]], concurrency: int = 64) -> None:
        rest = iter(objects)

        async def worker() -> None:
            for obj in rest:
                await self.create(path, obj)

        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())

    async def create(self, path: str, obj: dict[str, Any], *, may_exist: bool = False) -> None:
        async with self._session.post(path, data=msgspec.json.encode(obj)) as answer:
            if answer.status >= 300 and not (answer.status == 409 and may_exist):
                raise SystemExit(f"POST {path}: {answer.status} {(await answer.text())[:300]}")
            await answer.read()

    async def get(self, path: str) -> Any:
        async with self._session.get(path) as answer:
            if answer.status >= 300:
                raise SystemExit(f"GET {path}: {answer.status} {(await answer.text())[:300]}")
            return msgspec.json.decode(await answer.read())

    async def patch(self, path: str, patch: dict[str, Any]) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        async with self._session.patch(path, data=msgspec.json.encode(patch), headers=headers) as answer:
            if answer.status >= 300:
                raise SystemExit(f"PATCH {path}: {answer.status} {(await answer.text())[:300]}")
            await answer.read()

    async def bindings(self) -> AsyncGenerator[list[str]]:
        """The names of pods as they are bound, those of one piece of the answer together.

        A server short of CPU ends watches that cannot keep up: it goes on where that one ended."""
        query = {"watch": "1", "fieldSelector": "spec.nodeName!="}
        while True:
            async with self._session.get(PODS, params=query) as answer:
                if answer.status != 200:
                    raise SystemExit(f"watching {PODS}: {answer.status} {(await answer.text())[:300]}")
                async for events in _events(answer.content):
                    query["resourceVersion"] = events[-1].object.metadata.resource_version
                    yield [event.object.metadata.name for event in events if event.type == "ADDED"]

    async def prepare(self) -> None:
        """The namespace, and the ServiceAccount that a controller would make in it."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await self.create("/api/v1/namespaces", namespace, may_exist=True)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await self.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account, may_exist=True)

    async def clean(self, more: Iterable[str] = ()) -> None:
        """Delete what a run left: its pods at once (no kubelet answers for them), its nodes, its events, and
        what `more` paths name."""
        now = msgspec.json.encode({"gracePeriodSeconds": 0})
        selector = ",".join(f"{key}={value}" for key, value in LABELS.items())
        for path in (PODS, f"{NODES}?labelSelector={selector}", PODS.replace("pods", "events"), *more):
            async with self._session.delete(path, data=now) as answer:
                if answer.status >= 300:
                    raise SystemExit(f"DELETE {path}: {answer.status} {(await answer.text())[:300]}")
                await answer.read()


async def _events(stream: aiohttp.StreamReader) -> AsyncIterator[list[_WatchEvent]]:
    decoder = msgspec.json.Decoder(_WatchEvent)
    rest = b""
    async for piece in stream.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        if lines:
            yield [decoder.decode(line) for line in lines]


@asynccontextmanager
async def connect(kubeconfig: Path) -> AsyncIterator[Api]:
    async with session_for(kubeconfig, connections=100) as session:
        yield Api(session)
