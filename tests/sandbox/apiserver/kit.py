"""Embedded servers for tests: one behind HTTP in a thread of its own, one without HTTP at all."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from mooring.sandbox.apiserver.admission.plugins import default_admission
from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.bootstrap import bootstrap
from mooring.sandbox.apiserver.builtin import builtin_registry
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.custom.serving import serve_definitions
from mooring.sandbox.apiserver.dispatch import handle
from mooring.sandbox.apiserver.http.negotiation import PLAIN
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.sandbox.apiserver.store.store import Store
from mooring.sandbox.apiserver.verbs.request import Answer, ListAnswer, ObjectAnswer, Request, TreeAnswer
from mooring.testing import VirtualClock

USER = User("tester", ("system:masters",))
Tree = dict[str, Any]


# ---- without HTTP ---------------------------------------------------------------------------------


class Direct:
    """An API in memory, asked in plain calls; writes are flushed at once."""

    def __init__(self, window: int = 1000) -> None:
        self.user = USER
        self.clock = VirtualClock()
        self.store = Store(window=window)
        self.store.soon = lambda flush: None
        admission = default_admission(["ServiceAccount"])  # as in an EmbeddedServer
        self.api = Api(self.store, builtin_registry(), admission, clock=self.clock, seed=1)
        serve_definitions(self.api)
        bootstrap(self.api)
        self.store.flush()

    def ask(
        self,
        verb: str,
        plural: str,
        name: str = "",
        body: Any = None,
        *,
        group: str = "",
        version: str = "v1",
        namespace: str | None = None,
        subresource: str = "",
        content_type: str = "",
        **params: str,
    ) -> Answer:
        resource = self.api.registry.find(group, version, plural)
        assert resource is not None, f"{plural} of {group} {version} is not served"
        if namespace is None:
            namespace = "default" if resource.namespaced else ""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        part = resource.subresources[subresource] if subresource else None
        texts = {key.rstrip("_"): [text] for key, text in params.items()}
        request = Request(
            self.api, verb, resource, namespace, name, self.user, part, texts, data, content_type, "test/1"
        )
        try:
            return handle(request)
        finally:
            self.store.flush()

    def tree(self, *args: Any, **kwargs: Any) -> Tree:
        """The answer as the tree that a client would get."""
        answer = self.ask(*args, **kwargs)
        if isinstance(answer, ObjectAnswer):
            return _tree(PLAIN.single(answer.resource, answer.record))
        if isinstance(answer, ListAnswer):
            return _tree(b"".join(PLAIN.listed(answer.resource, answer.listing)))
        assert isinstance(answer, TreeAnswer)
        return answer.tree


def _tree(data: bytes) -> Tree:
    tree: Tree = json.loads(data)
    return tree


def pod(name: str, **spec: Any) -> Tree:
    spec.setdefault("containers", [{"name": "c", "image": "i"}])
    return {"metadata": {"name": name}, "spec": spec}


# ---- behind HTTP ----------------------------------------------------------------------------------


class Reply(NamedTuple):
    code: int
    headers: dict[str, str]
    text: str

    @property
    def tree(self) -> Tree:
        return _tree(self.text.encode())


class Running:
    """A server that runs in another thread, and a client of it."""

    def __init__(self, server: EmbeddedServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.loop = loop
        cluster = yaml.safe_load(Path(server.kubeconfig).read_text())["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)

    def connect(self, timeout: float = 30) -> http.client.HTTPSConnection:
        port = int(self.server.url.rpartition(":")[2])
        return http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout, context=self._tls)

    def headers(self, **more: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.server.token}", **more}

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """One request; names of headers are written with underscores."""
        connection = self.connect()
        sent = self.headers(**{name.replace("_", "-"): text for name, text in headers.items()})
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("content-type", "application/json")
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            return Reply(
                answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
            )
        finally:
            connection.close()


@contextmanager
def running(**options: Any) -> Iterator[Running]:
    """A server of its own in a thread of its own, for as long as the block."""
    loop = asyncio.new_event_loop()
    server = EmbeddedServer(**options)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(30)
        try:
            yield Running(server, loop)
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
