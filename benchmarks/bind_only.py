"""python -m benchmarks.bind_only: the limit, a "scheduler" that decides nothing.

It lists nodes and pending pods once, binds the pods to the nodes in turn, and posts the Scheduled event of
each, with as many requests at a time as it has workers. No scheduler written in Python with an ordinary HTTP
client can be expected to bind faster.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from benchmarks.access import session_for
from benchmarks.api_server import NAMESPACE, NODES, PODS

EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"


class _Metadata(msgspec.Struct):
    name: str
    uid: str


class _Object(msgspec.Struct):
    metadata: _Metadata


class _List(msgspec.Struct):
    items: list[_Object]


async def bind_all(kubeconfig: Path, workers: int) -> None:
    async with session_for(kubeconfig, connections=workers) as session:
        nodes = [node.name for node in await _list(session, NODES)]
        pods = await _list(session, f"{PODS}?fieldSelector=spec.nodeName=")
        backlog = iter([(pod, nodes[i % len(nodes)]) for i, pod in enumerate(pods)])
        await asyncio.gather(*(_work(session, backlog) for _ in range(workers)))
        await asyncio.Event().wait()  # until it is ended, as a scheduler


async def _work(session: aiohttp.ClientSession, backlog: Iterable[tuple[_Metadata, str]]) -> None:
    for pod, node in backlog:
        await _post(session, f"{PODS}/{pod.name}/binding", _binding(pod, node))
        await _post(session, EVENTS, _event(pod, node))


async def _list(session: aiohttp.ClientSession, path: str) -> list[_Metadata]:
    async with session.get(path) as answer:
        return [item.metadata for item in msgspec.json.decode(await answer.read(), type=_List).items]


async def _post(session: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> None:
    async with session.post(path, data=msgspec.json.encode(body)) as answer:
        text = await answer.read()
        if answer.status >= 300:
            raise SystemExit(f"POST {path}: {answer.status} {text[:300]!r}")


def _binding(pod: _Metadata, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": NAMESPACE, "uid": pod.uid},
        "target": {"kind": "Node", "name": node},
    }


def _event(pod: _Metadata, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{pod.name}.{pod.uid}", "namespace": NAMESPACE},
        "eventTime": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": "bind-only",
        "reportingInstance": "bind-only-1",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {
            "kind": "Pod",
            "namespace": NAMESPACE,
            "name": pod.name,
            "uid": pod.uid,
            "apiVersion": "v1",
        },
        "note": f"Successfully assigned {NAMESPACE}/{pod.name} to {node}",
        "type": "Normal",
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bind_only", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=32)
    options = parser.parse_args()
    asyncio.run(bind_all(options.kubeconfig, options.workers))


if __name__ == "__main__":
    main()
