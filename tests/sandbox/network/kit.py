"""Fake nodes whose pods reach each other, with the EndpointSlices of Services, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mooring.api.kinds import PODS, SERVICES
from mooring.client.cache import Cache
from mooring.client.controller import Context
from mooring.client.counting_recorder import CountingRecorder
from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.dispatch import handle
from mooring.sandbox.apiserver.verbs.request import ReplyAnswer, Request
from mooring.sandbox.controllers.endpoint_slices import EndpointSlices
from mooring.sandbox.network.messages import Query, Reply
from tests.sandbox.kubelet.kit import Nodes, node, play_on

Tree = dict[str, Any]
USER = User("alice", ("system:masters", "system:authenticated"))
NETEXEC: Tree = {"image": "agnhost", "args": ["netexec"]}
READY: Tree = {"readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1}}


class Net(Nodes):
    """What pods and clients of the API reach."""

    async def serve(self, name: str, *, labels: Tree | None = None, **container: Any) -> Tree:
        """Run a pod that serves, labelled `app: web`; return it once it runs."""
        container = {"name": "main", **(container or NETEXEC)}
        metadata = {"labels": {"app": "web"} if labels is None else labels}
        await self.run_pod(name, containers=[container], metadata=metadata)
        await self.advance(2)
        return await self.get("pods", name)

    async def client(self, **spec: Any) -> None:
        """Run the pod whose commands `run` executes."""
        container = {"name": "main", "image": "busybox", "command": ["sleep", "1d"]}
        await self.run_pod("client", containers=[container], **spec)

    async def expose(self, name: str = "web", port: int = 80, target: int | str = 8080, **spec: Any) -> Tree:
        """Create a Service for the pods with `app: web`; return it."""
        ports = spec.pop("ports", [{"port": port, "targetPort": target}])
        spec = {"selector": {"app": "web"}, "ports": ports, **spec}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
        await self.cluster.create(SERVICES, body, "default")
        await self.advance(1)
        return await self.get("services", name)

    async def run(self, script: str, pod: str = "client") -> tuple[int, str]:
        """Execute a script in a pod; return its exit code and its output."""
        uid = (await self.get("pods", pod))["metadata"]["uid"]
        containers = self.fake.containers
        outcome = containers.execute(uid, "main", ["sh", "-c", script], None, is_dry=False)
        assert outcome is not None, "unknown command"
        return outcome.exit_code, "".join(text for _, text in outcome.output)

    async def log(self, pod: str) -> str:
        tree = await self.get("pods", pod)
        state = tree["status"]["containerStatuses"][0]["state"]
        started = (state.get("running") or state["terminated"])["startedAt"]
        run = self.server.api.runs.find(tree["metadata"]["uid"], "main", started)
        return "" if run is None else "".join(text for at, text in run.outcome.output)

    def proxy(self, plural: str, name: str, target: str = "/", method: str = "GET", **query: Any) -> Reply:
        """Send a request through the API server. Raises ApiError."""
        answer = handle(self.proxied(plural, name, target, method, **query))
        assert isinstance(answer, ReplyAnswer)
        return answer.reply

    def proxied(
        self, plural: str, name: str, target: str = "/", method: str = "GET", **query: Any
    ) -> Request:
        """Return a request through the API server."""
        api = self.server.api
        resource = api.registry.find("", "v1", plural)
        assert resource is not None
        verb = {"POST": "create", "OPTIONS": "options"}.get(method, "get")
        proxied = Query(method, target, **query)
        subresource = resource.subresources["proxy"]
        return Request(api, verb, resource, "default", name, USER, subresource, proxied=proxied)


def connected(scene: Callable[[Net], Awaitable[None]], *, nodes: list[Tree] | None = None) -> None:
    """Run a scene on fake nodes with EndpointSlices."""

    async def with_slices(stage: Net) -> None:
        cache = Cache(stage.cluster)
        recorder = CountingRecorder(stage.cluster, now=lambda: 0)
        controller = EndpointSlices(Context(stage.cluster, cache, recorder, stage.now))
        cache.follow(PODS)
        tasks = [asyncio.create_task(each) for each in (cache.run(), controller.run())]
        await cache.synced.wait()
        try:
            await scene(stage)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    play_on(Net, with_slices, nodes=nodes or [node("node-1"), node("node-2")])
