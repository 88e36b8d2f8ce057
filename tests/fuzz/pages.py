"""Targets: the web page's HTTP API, and recordings of clusters."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any
from urllib.parse import quote

from mooring.config import LoadedConfig, default_config
from mooring.core.build import registry_with
from mooring.core.scheduler import Scheduler
from mooring.simulate.capture.recording import HEADER
from mooring.simulate.capture.replaying import Replay
from mooring.testing import make_node, make_pod
from mooring.testing.clock import START
from mooring.web.api import Api
from mooring.web.decisions import RecentDecisions
from mooring.web.service import PageService
from mooring.web.source import FixedSource
from mooring.web.stream import Stream
from mooring.web.what_if import WhatIf
from tests.fuzz.clients import loop
from tests.fuzz.files import FOLDER
from tests.fuzz.mutation import mutate_json, mutate_text
from tests.fuzz.servers import Talk
from tests.fuzz.target import target

_HOST = "127.0.0.1:80"
_TOKEN = "t"


def _source() -> FixedSource:
    config, registry = LoadedConfig(default_config()), registry_with()
    core = Scheduler(config, clock=lambda: START, pick=random.Random(0).randrange, registry=registry)
    for number in range(3):
        core.apply(make_node(f"n{number}", cpu="4"))
        core.apply(make_pod(f"p{number}", requests={"cpu": 2 * number + 1}))
    return FixedSource(core, config, registry, "fuzz")


_what_if = WhatIf(_source())


def _service() -> PageService:
    source = _source()
    decisions = RecentDecisions(lambda: START)
    return PageService(Api(source, decisions, Stream(source, decisions, dict)), _TOKEN, 80)


_talk = Talk(_service())


def _asking(path: str, **query: Any) -> str:
    return json.dumps({"path": path, "query": query})


@target(
    "page-requests",
    mutate_json,
    [
        _asking("/v1/meta"),
        _asking("/v1/cluster"),
        _asking("/v1/queue", state="active", q="p", limit="10"),
        _asking("/v1/pods", q="p1"),
        _asking("/v1/pods/default/p0"),
        _asking("/v1/pods/default/p2/table"),
        _asking("/v1/pods/default/p1/manifest", kind="node", field="x"),
        _asking("/v1/nodes/n0"),
        _asking("/v1/decisions", after="1", limit="5"),
        _asking("/v1/decisions/7"),
        _asking("/v1/podgroups/default/g"),
        _asking("/index.html"),
    ],
    [
        "/v1/", "..", "%2e%2e", "pods", "default", "limit", "-1", "999999999999999999999", "q", "state",
        "unschedulable", "kind",
    ],
)  # fmt: skip
def ask_page(data: bytes) -> object:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        tree = {"path": data[:200].decode("utf-8", "replace")}
    if not isinstance(tree, dict):
        return "no request"
    pairs = tree.get("query")
    query = "&".join(
        f"{quote(k, errors='replace')}={quote(str(v), errors='replace')}"
        for k, v in (pairs if isinstance(pairs, dict) else {}).items()
    )
    path = quote(str(tree.get("path")), safe="/%", errors="replace")
    head = (
        f"GET /{path.lstrip('/')}?{query} HTTP/1.1\r\nHost: {_HOST}\r\nAuthorization: Bearer {_TOKEN}\r\n\r\n"
    )
    answer = _talk(head.encode())
    status, _, body = answer.partition(b"\r\n\r\n")
    assert not status.startswith(b"HTTP/1.1 500"), body
    return status[9:12].decode() + body[:200].decode("utf-8", "replace").replace('"', " ")


_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "new"},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
}


@target(
    "what-if",
    mutate_json,
    [
        json.dumps({"manifest": json.dumps(_POD)}),
        json.dumps({"addNodes": [{"like": "n0", "count": 2}], "removeNodes": ["n1"]}),
        json.dumps({"taints": [{"node": "n0", "taint": "a=b:NoSchedule"}], "reschedule": True}),
        json.dumps({"weights": {"NodeResourcesFit": 3}}),
        json.dumps({"args": {"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}}}}),
        "{}",
    ],
    [
        "manifest", "addNodes", "like", "count", "removeNodes", "reschedule", "taints", "node", "taint",
        "remove", "weights", "args", "a=b:NoExecute", "n0", "n1", "2147483647", "NodeResourcesFit",
    ],
)  # fmt: skip
def ask_what_if(data: bytes) -> object:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return "no JSON"
    answer = loop.run_until_complete(asyncio.wait_for(_what_if.answer(tree), 30))
    assert answer.status < 500, answer.body
    return bytes(answer.body).decode("utf-8", "replace").replace('"', " ")[-120:]


# ---- recordings -----------------------------------------------------------------------------------


def _line(at: float, kind: str, obj: Any) -> str:
    return json.dumps({"t": at, "type": kind, "object": obj})


_HEADER = json.dumps({"format": HEADER, "version": 1, "started": "2030-01-01T00:00:00Z", "scrubbed": True})
_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "4", "pods": "9"}},
}
_BOUND = {**_POD, "metadata": {"name": "new", "uid": "u"}, "spec": {**_POD["spec"], "nodeName": "n"}}
_ENDED = {**_BOUND, "status": {"phase": "Succeeded"}}
_RECORDING = [
    _HEADER,
    _line(0, "APPLIED", _NODE),
    _line(1.5, "APPLIED", {**_POD, "metadata": {"name": "new", "uid": "u"}}),
    _line(2, "APPLIED", _BOUND),
    _line(9, "APPLIED", _ENDED),
    _line(12, "DELETED", _ENDED),
]


@target(
    "recordings",
    mutate_text,
    ["\n".join(_RECORDING), "\n".join(_RECORDING[:3]) + "\n", _HEADER],
    [
        "{", "}", "\n", '"t":', "-1", "1e999", "NaN", "DELETED", "APPLIED", '"uid":"u"', '"nodeName"',
        '"phase":"Failed"', "null",
    ],
    (ValueError,),
)  # fmt: skip
def replay_recording(data: bytes) -> object:
    """Read a recording as `mooring simulate` does."""
    path = FOLDER / "recording.jsonl"
    path.write_bytes(data)
    replay = Replay(path, 2.0)
    arrivals, there = replay.arrivals(0, replay.objects(0))
    return " ".join("n" + chr(97 + min(len(one), 25)) for one in (arrivals.time, there, replay.events))
