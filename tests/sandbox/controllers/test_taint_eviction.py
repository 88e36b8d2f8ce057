"""Taint eviction: who has to leave a tainted node, and when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.api.objects import Taint, Toleration
from mooring.sandbox.controllers.taint_eviction import TaintEviction, _patience
from tests.sandbox.controllers.kit import Embedded, Tree, play, template

TAINT = {"key": "bad", "effect": "NoExecute"}


def tolerating(*seconds: int | None) -> list[Tree]:
    return [
        {"key": "bad", "operator": "Exists", "effect": "NoExecute"}
        | ({} if period is None else {"tolerationSeconds": period})
        for period in seconds
    ]


async def begin(stage: Embedded) -> None:
    await stage.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    for name, tolerations in (
        ("none", []),
        ("brief", tolerating(30)),
        ("long", tolerating(300)),
        ("forever", tolerating(None)),
    ):
        pod = {"apiVersion": "v1", "kind": "Pod", **template("app", tolerations=tolerations)}
        await stage.create({**pod, "metadata": {"name": name}})
        await stage.bind(name, "n1")
    await stage.rest()


async def left(stage: Embedded) -> set[str]:
    """The pods that are not deleted."""
    return {
        pod["metadata"]["name"]
        for pod in await stage.all("pods")
        if not pod["metadata"].get("deletionTimestamp")
    }


async def taint(stage: Embedded, *taints: Tree) -> None:
    await stage.patch("nodes", "n1", {"spec": {"taints": list(taints)}})
    await stage.rest()


def test_pods_leave_when_they_have_tolerated_it_long_enough() -> None:
    async def scene(stage: Embedded) -> None:
        await begin(stage)
        await taint(stage, TAINT)
        assert await left(stage) == {"brief", "long", "forever"}
        await stage.advance(27)
        assert await left(stage) == {"brief", "long", "forever"}
        await stage.advance(3)
        assert await left(stage) == {"long", "forever"}
        await stage.advance(3600)
        assert await left(stage) == {"forever"}
        (target,) = [
            one
            for one in (await stage.get("pods", "brief"))["status"]["conditions"]
            if one["type"] == "DisruptionTarget"
        ]
        assert (target["status"], target["reason"]) == ("True", "DeletionByTaintManager")
        assert target["message"] == "Taint manager: deleting due to NoExecute taint"
        told = {(event.reason, event.message) for event in await stage.events()}
        assert ("TaintManagerEviction", "Marking for deletion Pod default/brief") in told

    play(scene, TaintEviction)


def test_a_taint_that_goes_in_time_spares_the_pods() -> None:
    async def scene(stage: Embedded) -> None:
        await begin(stage)
        await taint(stage, TAINT)
        await stage.advance(100)
        await taint(stage)
        await stage.advance(3600)
        assert await left(stage) == {"long", "forever"}
        told = {event.message for event in await stage.events()}
        assert "Cancelling deletion of Pod default/long" in told
        await taint(stage, TAINT)  # time begins anew
        await stage.advance(295)
        assert await left(stage) == {"long", "forever"}
        await stage.advance(10)
        assert await left(stage) == {"forever"}

    play(scene, TaintEviction)


def test_another_taint_does_not_begin_time_anew_but_may_be_too_much() -> None:
    async def scene(stage: Embedded) -> None:
        await begin(stage)
        await taint(stage, TAINT)
        await stage.advance(200)
        await taint(stage, {**TAINT, "value": "worse"})
        await stage.advance(95)
        assert await left(stage) == {"long", "forever"}
        await stage.advance(10)
        assert await left(stage) == {"forever"}
        await taint(stage, TAINT, {"key": "worst", "effect": "NoExecute"})
        assert await left(stage) == set()

    play(scene, TaintEviction)


def test_a_pod_that_comes_to_a_tainted_node_leaves_too() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        await taint(stage, TAINT)
        pod = {"apiVersion": "v1", "kind": "Pod", **template("app"), "metadata": {"name": "late"}}
        await stage.create(pod)
        await stage.bind("late", "n1")
        await stage.rest()
        assert await left(stage) == set()

    play(scene, TaintEviction)


@given(st.lists(st.none() | st.integers(-5, 1000), max_size=4), st.integers(1, 3))
def test_patience(seconds: list[int | None], count: int) -> None:
    taints = [Taint(key=f"k{number}", effect="NoExecute") for number in range(count)]
    tolerations = [
        Toleration(key=f"k{number}", operator="Exists", toleration_seconds=period)
        for number, period in enumerate(seconds)
    ]
    found = _patience(taints, tolerations)
    if len(seconds) < count:
        assert found == 0
    else:
        finite = [max(period, 0) for period in seconds[:count] if period is not None]
        assert found == min(finite, default=float("inf"))
