"""Quotas, compared with what kube-apiserver and kube-controller-manager were seen to do."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.kinds import PODS
from mooring.api.quantity import parse
from mooring.client.api_errors import ApiError
from mooring.sandbox.controllers.deployment import DeploymentController
from mooring.sandbox.controllers.garbage_collector import GarbageCollector
from mooring.sandbox.controllers.replica_set import ReplicaSetController
from mooring.sandbox.controllers.resource_quota import ResourceQuotaController
from mooring.sandbox.quota.amounts import equal, exceeding
from tests.sandbox.controllers.kit import Embedded, Stage, Tree, play
from tests.sandbox.controllers.quota_scenes import SCENES, play_scene, pod, quota

DATA = Path(__file__).parent / "data"
CONTROLLERS = (ResourceQuotaController, DeploymentController, ReplicaSetController, GarbageCollector)


@pytest.mark.parametrize("name", SCENES)
def test_as_recorded(name: str) -> None:
    recorded = json.loads((DATA / f"{name}.json").read_text())
    found = play(lambda stage: play_scene(name, stage), *CONTROLLERS)
    for page, expected in zip(found["pages"], recorded["pages"], strict=True):
        assert page == expected, f"after: {expected['after']}"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from(["100m", "0.4", "1"]), st.sampled_from(["64Mi", "70M"])),
        st.tuples(st.sampled_from(["delete", "end", "rest"]), st.integers(0, 9), st.none()),
    ),
    max_size=25,
)
HARD = {"requests.cpu": "3", "memory": "300Mi", "pods": "6", "count/pods": "9"}


@settings(max_examples=20)
@given(STEPS)
def test_never_more_than_there_is_and_what_is_used_is_what_is_there(
    steps: list[tuple[str, Any, Any]],
) -> None:
    async def scene(stage: Stage) -> None:
        await stage.create(quota("q", HARD))
        await stage.rest()
        for number, (what, first, memory) in enumerate(steps):
            names = [one["metadata"]["name"] for one in await stage.all("pods")]
            if what == "create":
                with suppress(ApiError):
                    await stage.create(pod(f"p{number:02}", {"cpu": first, "memory": memory}))
            elif what == "rest":
                await stage.rest()
            elif names and what == "delete":
                await stage.delete("pods", names[first % len(names)], grace=0)
            elif names:
                await stage.end_pod(names[first % len(names)])
            there = _used_by(await stage.all("pods"))
            assert not exceeding(there, HARD)
        await stage.rest()
        used = (await stage.get("resourcequotas", "q"))["status"]["used"]
        assert equal(used, _used_by(await stage.all("pods")))

    play(scene, ResourceQuotaController)


def _used_by(pods: list[Tree]) -> Tree:
    """By hand, since all these pods have one container."""
    active = [one for one in pods if one["status"]["phase"] not in ("Succeeded", "Failed")]
    requests = [one["spec"]["containers"][0]["resources"]["requests"] for one in active]
    cpu, memory = (sum(parse(each[name]) for each in requests) for name in ("cpu", "memory"))
    counts = {"pods": str(len(active)), "count/pods": str(len(pods))}
    return {**counts, "requests.cpu": f"{cpu}n", "memory": f"{memory}n"}


def test_a_pod_of_which_nothing_was_heard_yet_is_counted_soon() -> None:
    async def scene(stage: Embedded) -> list[str]:
        await stage.create(pod("late", {"cpu": "1"}))
        await stage.create(quota("q", {"pods": "3"}))
        await stage.advance(5)
        pods = stage.context.cache.follow(PODS)
        late = pods.get("default/late")
        assert late is not None
        pods.delete(late)  # as it is before the news of it
        await stage.advance(0.5)
        used = [(await stage.get("resourcequotas", "q"))["status"]["used"]["pods"]]
        pods.apply(late)
        await stage.advance(2)
        return [*used, (await stage.get("resourcequotas", "q"))["status"]["used"]["pods"]]

    assert play(scene, ResourceQuotaController) == ["0", "1"]
