"""Pod garbage collection: pods without a node, without a future, and too many of the past."""

from __future__ import annotations

from functools import partial
from typing import Any

from mooring.sandbox.controllers.pod_gc import PodGC
from tests.sandbox.controllers.kit import Embedded, Tree, play, template


def pod(name: str, **metadata: Any) -> Tree:
    return {"apiVersion": "v1", "kind": "Pod", **template("app"), "metadata": {"name": name, **metadata}}


def node(name: str) -> Tree:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


async def names(stage: Embedded) -> list[str]:
    return [one["metadata"]["name"] for one in await stage.all("pods")]


def test_pods_of_a_node_that_is_gone() -> None:
    async def scene(stage: Embedded) -> None:
        for name in ("n1", "n2"):
            await stage.create(node(name))
            await stage.create(pod(f"on-{name}", finalizers=["example.com/look"]))
            await stage.bind(f"on-{name}", name)
            await stage.set_ready(f"on-{name}")
        await stage.delete("nodes", "n1")
        await stage.delete("nodes", "n2")
        await stage.advance(20)
        await stage.create(node("n2"))
        await stage.advance(19)
        assert (await stage.get("pods", "on-n1"))["status"]["phase"] == "Running"
        await stage.advance(3600)
        gone = await stage.get("pods", "on-n1")
        assert gone["metadata"]["deletionTimestamp"]
        assert gone["status"]["phase"] == "Failed"
        (target,) = [one for one in gone["status"]["conditions"] if one["type"] == "DisruptionTarget"]
        assert (target["reason"], target["message"]) == ("DeletionByPodGC", "PodGC: node no longer exists")
        await stage.patch("pods", "on-n1", {"metadata": {"finalizers": None}})
        await stage.rest()
        assert await names(stage) == ["on-n2"]

    play(scene, PodGC)


def test_pods_bound_to_a_node_that_never_was() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(pod("p"))
        await stage.bind("p", "nowhere")
        await stage.advance(39)
        assert await names(stage) == ["p"]
        await stage.advance(2)
        assert await names(stage) == []

    play(scene, PodGC)


def test_terminating_pods_of_a_node_that_is_out_of_service() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(node("n1"))
        for name in ("stays", "goes"):
            await stage.create(pod(name))
            await stage.bind(name, "n1")
        await stage.delete("pods", "goes")
        await stage.advance(600)
        assert await names(stage) == ["goes", "stays"]
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        await stage.patch("nodes", "n1", {"spec": {"taints": [taint]}})
        await stage.rest()
        assert await names(stage) == ["stays"]

    play(scene, PodGC)


def test_the_oldest_of_too_many_finished_pods() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(node("n1"))
        for number in range(6):
            await stage.create(pod(f"p{number}"))
            await stage.bind(f"p{number}", "n1")
            await stage.advance(1)
        await stage.patch("pods", "p4", {"status": {"phase": "Failed", "reason": "Evicted"}}, "status")
        for number in (3, 2, 1, 0):
            await stage.end_pod(f"p{number}")
        await stage.rest()
        assert await names(stage) == ["p1", "p2", "p3", "p5"]  # the evicted one went first

    play(scene, partial(PodGC, terminated_pods=3))
