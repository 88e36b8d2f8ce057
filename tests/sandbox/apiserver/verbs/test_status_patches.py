"""The short way for patches of a status leads where the long one does, and is taken where it may be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from mooring.client.port import PatchType
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.sandbox.apiserver.verbs import patching
from tests.sandbox.controllers.kit import Stage, resource, tree_of

Tree = dict[str, Any]

POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}}
READY = {"type": "Ready", "status": "True", "lastProbeTime": None}
ENDED = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0,
         "state": {"terminated": {"exitCode": 0}}}  # fmt: skip
PATCHES: list[list[Tree]] = [
    [{"phase": "Running"}],
    [{"phase": "Running"}, {"phase": "Running"}],
    [{"phase": "Running"}, {"phase": None, "message": "m"}],
    [{"conditions": [READY]}, {"conditions": [{**READY, "type": "Initialized"}]}],
    [{"conditions": [READY], "podIP": "10.0.0.1"}, {"conditions": [], "podIP": ""}],
    [{"podIPs": [{"ip": "10.0.0.1"}]}, {"podIPs": [{"ip": "nowhere"}]}],
    [{"containerStatuses": [ENDED]}, {"containerStatuses": [{**ENDED, "state": {"running": {}}}]}],
    [{"phase": 7}],
    [{"unheardOf": {"a": 1}, "reason": "r"}],
    [{"qosClass": "Guaranteed"}],
    [{"observedGeneration": -1}],
    [{}],
]


@pytest.mark.parametrize("kind", [PatchType.MERGE, PatchType.STRATEGIC])
@pytest.mark.parametrize("patches", PATCHES)
def test_both_ways_lead_to_the_same(
    patches: list[Tree], kind: PatchType, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = asyncio.run(outcomes(patches, kind))
    monkeypatch.setattr(patching, "patch_status", lambda *_: None)
    assert short == asyncio.run(outcomes(patches, kind))


async def outcomes(patches: list[Tree], kind: PatchType) -> list[Any]:
    """What becomes of a pod, patch by patch, or what is said against it."""
    async with opened() as (cluster, _):
        pod = await cluster.create(resource("pods"), POD, "default")
        found: list[Any] = []
        for status in patches:
            seen = {"uid": pod.uid}
            body = {"metadata": seen, "status": status}
            try:
                pod = await cluster.patch(
                    resource("pods"), "p", body, "default", subresource="status", kind=kind
                )
                found.append(tree_of(pod))
            except ApiError as refusal:
                found.append((refusal.code, refusal.message))
        return found


class opened:  # noqa: N801 - reads as a word
    """An embedded API on a clock that stands still, and its untracked port."""

    async def __aenter__(self) -> tuple[EmbeddedCluster, EmbeddedServer]:
        self._server = EmbeddedServer(clock=lambda: 1_893_456_000.0, seed=1)
        self._server.open()
        return EmbeddedCluster(self._server.api, tracked=False), self._server

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop()


def test_a_status_may_be_written_for_one_version_only() -> None:
    async def scene() -> None:
        async with opened() as (cluster, _):
            pods = resource("pods")
            pod = await cluster.create(pods, POD, "default")

            async def write(**metadata: str) -> str:
                body = {"metadata": metadata, "status": {"message": "m"}}
                written = await cluster.patch(pods, "p", body, "default", subresource="status")
                return written.metadata.resource_version

            version = await write(resourceVersion=pod.metadata.resource_version)
            with pytest.raises(ApiError, match="has been modified"):
                await write(resourceVersion=pod.metadata.resource_version)
            with pytest.raises(ApiError, match="UID in precondition"):
                await write(uid="another")
            assert await write(uid=pod.uid, resourceVersion=version) == version  # nothing new in it

    asyncio.run(scene())


def test_owned_and_terminating_objects_go_the_long_way() -> None:
    async def scene() -> None:
        async with opened() as (cluster, server):
            stage = Stage(server.cluster, lambda: 0.0)
            await stage.create({"kind": "Pod", **POD})  # tracked: it has managers
            body = {"status": {"message": "m"}}
            await cluster.patch(resource("pods"), "p", body, "default", subresource="status")
            pod = server.api.read("pods", "p", "default")
            assert pod is not None
            assert pod["metadata"]["managedFields"]
            assert pod["status"]["message"] == "m"
            await stage.delete("pods", "p")
            body = {"status": {"message": "n"}}
            await cluster.patch(resource("pods"), "p", body, "default", subresource="status")
            assert (await stage.get("pods", "p"))["status"]["message"] == "n"

    asyncio.run(scene())
