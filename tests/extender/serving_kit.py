"""Extenders on loopback, in a thread of their own, and a client that asks as kube-scheduler does."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mooring.client.credentials import load_credentials
from mooring.config import LoadedConfig, loads
from mooring.core.build import registry_with
from mooring.extender.serving.handlers import handlers_of
from mooring.extender.serving.offer import Served
from mooring.extender.serving.process import ExtenderProcess, Settings
from mooring.framework.plugin import Plugin
from mooring.process.client import LiveClient
from mooring.serving.settings import EndpointSettings

Tree = dict[str, Any]


class Reply(NamedTuple):
    code: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def tree(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        found: str = self.tree["Error"]
        return found


class Asked:
    """A running extender."""

    def __init__(self, process: ExtenderProcess, tls: ssl.SSLContext | None = None) -> None:
        self.process = process
        self.port = int(process.url.rpartition(":")[2])
        self.tls = tls

    def connect(self, tls: ssl.SSLContext | None = None) -> http.client.HTTPConnection:
        context = tls or self.tls
        if context is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=20, context=context)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        connection = self.connect()
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, told, answer.read())
        finally:
            connection.close()

    def post(self, path: str, body: Any) -> Reply:
        return self.ask("POST", path, json.dumps(body).encode(), content_type="application/json")

    def filter(self, pod: Tree, *nodes: Tree | str, path: str = "/filter") -> Tree:
        found: Tree = self.post(path, args(pod, *nodes)).tree
        return found

    def prioritize(self, pod: Tree, *nodes: Tree | str) -> dict[str, int]:
        reply = self.post("/prioritize", args(pod, *nodes))
        assert reply.code == 200, reply.body
        return {each["Host"]: each["Score"] for each in reply.tree}


def args(pod: Tree, *nodes: Tree | str) -> Tree:
    """ExtenderArgs as kube-scheduler writes them: nodes whole, or by name."""
    by_name = bool(nodes) and all(isinstance(node, str) for node in nodes)
    whole = None if by_name else {"metadata": {}, "items": list(nodes)}
    return {"Pod": pod, "Nodes": whole, "NodeNames": list(nodes) if by_name else None}


def pod(name: str = "p", **spec: Any) -> Tree:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": None}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}, "status": {}}


def node(name: str, cpu: str = "4", **labels: str) -> Tree:
    status = {
        "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"},
        "nodeInfo": {"kubeletVersion": "x"},
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


@contextmanager
def extender(
    *functions: Callable[..., Any],
    plugins: tuple[type[Plugin], ...] = (),
    config: str = "",
    kubeconfig: Path | None = None,
    cached: bool = False,
    tls: ssl.SSLContext | None = None,
    **endpoint: Any,
) -> Iterator[Asked]:
    """Decorated functions and plugins, served for as long as the block."""
    loaded: LoadedConfig | None = loads(config) if config else None
    settings = Settings(
        served=Served(
            handlers=[handler for function in functions for handler in handlers_of(function)],
            plugins=[cls.name for cls in plugins],
            registry=registry_with(plugins),
            config=loaded,
            node_cache_capable=cached,
        ),
        endpoint=EndpointSettings(bind_address="127.0.0.1", secure_port=0, **endpoint),
        credentials=None if kubeconfig is None else load_credentials(str(kubeconfig)),
        make_client=lambda cluster: LiveClient(cluster, may_bind=lambda: True),
    )
    with running(settings) as process:
        yield Asked(process, tls)


@contextmanager
def running(settings: Settings) -> Iterator[ExtenderProcess]:
    loop = asyncio.new_event_loop()
    started: list[ExtenderProcess | Exception] = []
    listening = threading.Event()

    async def main() -> None:
        try:
            started.append(ExtenderProcess(settings))
        except Exception as error:
            started.append(error)
        listening.set()
        if isinstance(started[0], ExtenderProcess):
            await started[0].run()

    def work() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main())

    thread = threading.Thread(target=work)
    thread.start()
    listening.wait(20)
    try:
        if isinstance(started[0], Exception):
            raise started[0]
        try:
            yield started[0]
        finally:
            loop.call_soon_threadsafe(started[0].end, "the test is over")
    finally:
        thread.join(20)
        assert not thread.is_alive()
