"""A real extender over HTTP on loopback, and a cluster in memory whose scheduler asks it."""

from __future__ import annotations

import json
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.client.parallel import Threads
from mooring.config import from_object
from mooring.core.decision import Decision
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.extender.calling.http_extender import HttpExtender
from mooring.extender.calling.make import make_extenders
from mooring.testing import VirtualClock, make_node, make_pod

Answer = Callable[[dict[str, Any]], Any]
PATIENT = "60s"  # on a busy machine even loopback takes its time
MADE: list[HttpExtender] = []  # to be closed after each test


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away in the middle are part of the tests."""


class FakeExtender:
    """Answers each verb with what a function makes of the request: a tree, bytes, or (code, bytes).

    `requests` has what was asked; `connections` how many connections there were.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, **verbs: Answer) -> None:
        self.verbs = verbs
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        self.keep_alive = True
        self._server = Server(("127.0.0.1", 0), _handler(self))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def asked(self, verb: str) -> list[dict[str, Any]]:
        return [body for name, body in self.requests if name == verb]


def _handler(extender: FakeExtender) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            extender.connections += 1
            super().setup()

        def do_POST(self) -> None:
            verb = self.path.rpartition("/")[2]
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            extender.requests.append((verb, body))
            extender.headers.append(dict(self.headers))
            answer = extender.verbs[verb](body) if verb in extender.verbs else (404, b"")
            code, data = answer if isinstance(answer, tuple) else (200, answer)
            if not isinstance(data, bytes):
                data = json.dumps(data).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            if not extender.keep_alive:
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


@contextmanager
def serving(tls: ssl.SSLContext | None = None, **verbs: Answer) -> Iterator[FakeExtender]:
    extender = FakeExtender(tls, **verbs)
    try:
        yield extender
    finally:
        extender.stop()


@contextmanager
def waiting_for(seconds: float) -> Iterator[Callable[[], None]]:
    """A wait that ends early when the test does."""
    over = threading.Event()
    try:
        yield lambda: void(over.wait(seconds))
    finally:
        over.set()


def void(_: object) -> None:
    return None


class Setting:
    """A scheduler at work in memory on a virtual clock, with extenders."""

    def __init__(
        self,
        *extenders: dict[str, Any],
        profile: dict[str, Any] | None = None,
        binds: bool = False,
        record: bool = True,
    ) -> None:
        tree: dict[str, Any] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": [{"httpTimeout": PATIENT, **extender} for extender in extenders],
        }
        if profile is not None:
            tree["profiles"] = [profile]
        loaded = from_object(tree)
        self.clock = VirtualClock()
        self.extenders = make_extenders(loaded, binds=binds)
        MADE.extend(self.extenders)
        self.scheduler = Scheduler(
            loaded,
            clock=self.clock,
            pick=random.Random(0).randrange,
            extenders=self.extenders,
            parallelize=Threads(4),
            record=record,
        )
        self.cluster = MemoryCluster(self.scheduler)
        self.decisions: list[Decision] = []

    def apply(self, *objects: KubeObject) -> None:
        for obj in objects:
            self.cluster.apply(obj)
        self.run()

    def run(self) -> None:
        self.cluster.run(self.decisions.append)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.scheduler.tick()
        self.run()

    @property
    def last(self) -> Decision:
        return self.decisions[-1]

    def pod(self, name: str) -> Pod:
        return next(pod for pod in self.cluster.pods.values() if pod.name == name)

    def message(self, name: str) -> str:
        """What the pod's condition says."""
        return next(c.message for c in self.pod(name).status.conditions if c.type == "PodScheduled")

    def node_of(self, name: str) -> str:
        return self.pod(name).spec.node_name


def nodes(*names: str) -> list[KubeObject]:
    return [make_node(name, cpu="8", memory="32Gi") for name in names]


def pod(name: str = "web", **parts: Any) -> KubeObject:
    return make_pod(name, **parts)


def names_of(request: dict[str, Any]) -> list[str]:
    """The nodes that a request asks about, whichever form it has."""
    if request["NodeNames"] is not None:
        return list(request["NodeNames"])
    return [node["metadata"]["name"] for node in request["Nodes"]["items"]]


def passing(*passed: str, **failed: str) -> Answer:
    """A filter that lets some nodes pass, in the form in which it was asked."""

    def answer(request: dict[str, Any]) -> Any:
        if request["NodeNames"] is not None:
            return {"NodeNames": [n for n in request["NodeNames"] if n in passed], "FailedNodes": failed}
        items = [n for n in request["Nodes"]["items"] if n["metadata"]["name"] in passed]
        return {"Nodes": {"items": items}, "FailedNodes": failed}

    return answer


def eventually(seen: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)
