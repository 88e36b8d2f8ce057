"""An extension API server in a pod: the sample that Kubernetes' tests deploy."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mooring.api.kinds import ApiResource
from mooring.sandbox.apiserver.aggregation.availability import Availability
from mooring.sandbox.apiserver.aggregation.remotes import API_SERVICES, Remotes
from mooring.sandbox.apiserver.aggregation.upstream import Question, ask
from tests.sandbox.controllers.kit import Whole
from tests.sandbox.network.kit import USER, Net, Tree, connected

REGISTRATIONS = ApiResource("apiregistration.k8s.io", "v1", "apiservices", False, Whole)
SERVER: Tree = {
    "image": "registry.k8s.io/e2e-test-images/sample-apiserver:1.33.8",
    "args": ["--audit-log-path=-"],
}
FLUNDERS = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders"
JSON = [(b"content-type", b"application/json")]


def test_it_serves_a_group_of_the_cluster() -> None:
    async def scene(net: Net) -> None:
        api = net.server.api
        remotes = Remotes(api)
        spec = {
            "group": "wardle.example.com", "version": "v1alpha1", "groupPriorityMinimum": 2000,
            "versionPriority": 200, "insecureSkipTLSVerify": True,
            "service": {"namespace": "default", "name": "web", "port": 7443},
        }  # fmt: skip
        body = {"metadata": {"name": "v1alpha1.wardle.example.com"}, "spec": spec}
        await net.cluster.create(REGISTRATIONS, body)
        (remote,) = remotes.all()
        availability = Availability(api, remotes)

        async def find_reason() -> str:
            await availability.check(remote)
            tree = api.read(API_SERVICES, remote.name)
            assert tree is not None
            return str(tree["status"]["conditions"][0]["reason"])

        async def send(method: str, target: str, tree: Tree | None = None) -> tuple[int, Any]:
            content = b"" if tree is None else json.dumps(tree).encode()
            answer = await ask(api, remote, Question(method, target, JSON, content), USER, None)
            return answer.status, json.loads(await answer.read())

        assert await find_reason() == "ServiceNotFound"
        await net.expose(port=7443, target=443)
        assert await find_reason() == "MissingEndpoints"
        await net.serve("sample", **SERVER)
        assert await find_reason() == "Passed"
        assert [one["name"] for one in remote.resources] == ["fischers", "flunders"]
        assert remote.openapi == {"serverRelativeURL": "/openapi/v3/apis/wardle.example.com/v1alpha1"}
        assert (await send("GET", remote.openapi["serverRelativeURL"]))[1]["openapi"] == "3.0.0"

        asking = asyncio.gather(*(send("GET", FLUNDERS) for _ in range(50)))
        turns = 0
        while not asking.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 50, "others have their turn"

        flunder: Tree = {"kind": "Flunder", "metadata": {"name": "a"}}
        assert (await send("POST", f"{FLUNDERS}?dryRun=All", flunder))[0] == 201
        code, created = await send("POST", FLUNDERS, flunder)
        assert (code, created["apiVersion"]) == (201, "wardle.example.com/v1alpha1")
        assert (await send("POST", FLUNDERS, flunder))[1]["reason"] == "AlreadyExists"
        assert (await send("PUT", f"{FLUNDERS}/a", {**flunder, "spec": {"b": 1}}))[1]["spec"] == {"b": 1}
        assert [one["spec"] for one in (await send("GET", FLUNDERS))[1]["items"]] == [{"b": 1}]
        assert (await send("DELETE", f"{FLUNDERS}/a"))[1]["status"] == "Success"
        assert (await send("GET", f"{FLUNDERS}/a"))[1][
            "message"
        ] == 'flunders.wardle.example.com "a" not found'

        await net.delete("pods", "sample", grace=0)
        await asyncio.sleep(3)
        assert await find_reason() == "MissingEndpoints"

    connected(scene)
