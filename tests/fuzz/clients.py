"""Targets: what servers answer to our clients."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Iterator, Mapping
from typing import Any, cast

from mooring.api.errors import MalformedObject
from mooring.api.kinds import NODES, PODS
from mooring.client.api_errors import ApiError
from mooring.client.decoding import reader_of
from mooring.client.http.lines import LineConnection
from mooring.client.refusals import UNREADABLE, refusal
from mooring.config import from_object
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.extender.calling import connections as calling
from mooring.extender.calling.make import make_extenders
from mooring.runtime.extender import ExtenderCallError, VictimsOnNode
from mooring.testing import VirtualClock, make_node, make_pod
from tests.fuzz.mutation import mutate_json, mutate_text
from tests.fuzz.target import target

_HTTP = (
    "HTTP/1.1", " 200 OK", "\r\n", "\r\n\r\n", "Content-Length: ", "Transfer-Encoding: chunked",
    "0\r\n\r\n", "ffff\r\n",
    "Connection: close", "Connection: keep-alive", "103", "429", "Retry-After: 1", ":", "\n",
)  # fmt: skip


def _chunks(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


# ---- watches --------------------------------------------------------------------------------------

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
_METADATA = {"name": "a", "namespace": "b", "resourceVersion": "5", "uid": "u", "labels": {"a": "b"}}
_POD = {"metadata": _METADATA, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running"}}
_EVENTS = [
    json.dumps({"type": kind, "object": obj})
    for kind, obj in (
        ("ADDED", _POD),
        ("DELETED", _POD),
        ("BOOKMARK", {"metadata": {"resourceVersion": "9"}}),
        ("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}),
    )
]
_STREAM = "\n".join(_EVENTS).encode() + b"\n"


class Transport:
    """A transport whose other end the target plays."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def get_write_buffer_size(self) -> int:
        return 0


loop = asyncio.new_event_loop()


@target(
    "watch-streams",
    mutate_text,
    [
        _HEAD + _chunks(_STREAM),
        b"HTTP/1.1 200 OK\r\n\r\n" + _STREAM,
        b'HTTP/1.1 410 Gone\r\nContent-Length: 24\r\n\r\n{"code":410,"reason":""}',
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + _HEAD + _chunks(_STREAM),
    ],
    [*_HTTP, '{"type":"ADDED","object":', "null", "{", "}", "[", '"', "ERROR", "BOOKMARK"],
    (ApiError, ConnectionError, ValueError, *UNREADABLE),
)
def read_watch(data: bytes) -> object:
    """Read the bytes of a watch as `ApiServer.watch` does."""

    async def watch() -> object:
        connection = LineConnection()
        transport = Transport()
        connection.connection_made(cast(asyncio.Transport, transport))
        began = connection.send(b"GET / HTTP/1.1\r\n\r\n", 0)
        size = 1 + len(data) // 3
        for start in range(0, len(data), size):
            if not transport.closed:
                connection.data_received(data[start : start + size])
        connection.connection_lost(None)
        await began
        if not connection.streaming:
            raise refusal("GET", connection.response())
        changes: list[str] = []
        while lines := await connection.lines():
            changes += [_change(line) for line in lines]
        return changes

    return loop.run_until_complete(watch())


def _change(line: bytes) -> str:
    change = reader_of(PODS.model).change(line)
    return f"{change.type} malformed" if change.malformed else change.type


@target(
    "lists",
    mutate_json,
    [
        json.dumps({"metadata": {"resourceVersion": "5", "continue": ""}, "items": [_POD, _POD]}),
        json.dumps(
            {
                "metadata": {"resourceVersion": "5"},
                "items": [{"metadata": _METADATA, "status": {"capacity": {}}}],
            }
        ),
    ],
    ["metadata", "items", "null", "spec", "containers", "resourceVersion"],
    (MalformedObject, *UNREADABLE),
)
def read_list(data: bytes) -> object:
    pods = reader_of(PODS.model).page(data)
    nodes = reader_of(NODES.model).page(data)
    return len(pods.items), len(pods.malformed), len(nodes.malformed)


# ---- extenders ------------------------------------------------------------------------------------

_FILTERED = json.dumps({"NodeNames": ["n0", "n1"], "FailedNodes": {"n2": "full"}, "Error": ""}).encode()
_WHOLE = json.dumps(
    {"Nodes": {"items": [{"metadata": {"name": "n0"}}]}, "FailedAndUnresolvableNodes": {"n2": "no"}}
)
_SCORES = json.dumps([{"Host": f"n{i}", "Score": i} for i in range(3)]).encode()
_VICTIMS = json.dumps(
    {"NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}}}
).encode()


class _Socket:
    """A socket from which an answer is read."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def settimeout(self, seconds: float) -> None: ...

    def setsockopt(self, *_: int) -> None: ...

    def sendall(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def recv(self, size: int) -> bytes:
        size = min(size, 1 + len(self._data) // 2)
        data, self._data = self._data[:size], self._data[size:]
        return data


class _Connections(calling.Connections):
    answer = b""

    def _connect(self, deadline: float) -> calling._Connection:
        return calling._Connection(cast(Any, _Socket(self.answer)))

    def _take(self) -> None:
        self._idle.clear()


def _extender() -> Any:
    loaded = from_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": [
                {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter", "prioritizeVerb": "prioritize",
                 "preemptVerb": "preempt", "bindVerb": "bind", "weight": 1, "nodeCacheCapable": True}
            ],
        }
    )  # fmt: skip
    extender = make_extenders(loaded)[0]
    extender._connections = _Connections("http://127.0.0.1:1", None)
    scheduler = Scheduler(loaded, clock=VirtualClock(), pick=random.Random(0).randrange, extenders=[extender])
    cluster = MemoryCluster(scheduler)
    for index in range(3):
        cluster.apply(make_node(f"n{index}", cpu="8"))
    return extender, scheduler.cluster.nodes, scheduler.cluster.info(make_pod("p"))


_asked: list[Any] = []


@target(
    "extender-answers",
    mutate_text,
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        for body in (_FILTERED, _WHOLE.encode(), _SCORES, _VICTIMS, b'{"Error":"no"}', b"null")
    ]
    + [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + _chunks(_SCORES),
        b"HTTP/1.1 500 No\r\n\r\n",
    ],
    [
        *_HTTP,
        "NodeNames",
        "nodenames",
        "Nodes",
        "items",
        "Host",
        "Score",
        "n0",
        "null",
        '"',
        "{",
        "]",
        "9223372036854775807",
    ],
    (ExtenderCallError,),
)
def ask_extender(data: bytes) -> object:
    """All verbs, answered with these bytes."""
    if not _asked:
        logging.getLogger("mooring.extender").setLevel(logging.CRITICAL)
        _asked.extend(_extender())
    extender, nodes, pod = _asked
    extender._connections.answer = data
    outcomes = list(_verbs(extender, nodes, pod))
    return "; ".join(outcomes)


def _verbs(extender: Any, nodes: Any, pod: Any) -> Iterator[str]:
    victims: Mapping[str, VictimsOnNode] = {"n0": VictimsOnNode([pod], 0)}
    for ask in (
        lambda: len(extender.filter(pod, nodes).passed),
        lambda: len(extender.prioritize(pod, nodes)),
        lambda: len(extender.process_preemption(pod, victims, lambda name: [pod] if name == "n0" else None)),
        lambda: extender._bind(pod, "n0"),
    ):
        try:
            yield str(ask())
        except ExtenderCallError as error:
            yield type(error).__name__ + str(error)[-40:]


@target(
    "extender-bodies",
    mutate_json,
    [_FILTERED, _WHOLE, _SCORES, _VICTIMS, b'{"Error":"no"}'],
    [
        "NodeNames",
        "Nodes",
        "items",
        "metadata",
        "name",
        "Host",
        "Score",
        "n0",
        "FailedNodes",
        "Error",
        "Pods",
        "UID",
    ],
)
def read_extender_body(data: bytes) -> object:
    return ask_extender(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data))
