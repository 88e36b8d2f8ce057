"""Extenders that have a say in preemption: which nodes remain, and which pods go."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.testing import make_node, make_pod
from tests.extender.calling_kit import Answer, Setting, serving


def crowded(answer: Answer, *, cached: bool, ignorable: bool = False) -> tuple[Setting, list[dict[str, Any]]]:
    """Two nodes full of unimportant pods, and an important one that fits nowhere."""
    with serving(preempt=answer) as extender:
        setting = Setting(
            {
                "urlPrefix": extender.url,
                "preemptVerb": "preempt",
                "nodeCacheCapable": cached,
                "ignorable": ignorable,
            }
        )
        old = [
            make_pod(f"{node}-{i}", uid=f"{node}-{i}", requests={"cpu": "2"}, node_name=node, started=0.0)
            for node in ("a", "b")
            for i in range(2)
        ]
        setting.apply(make_node("a", cpu="4"), make_node("b", cpu="4"), *old)
        setting.apply(make_pod("vip", requests={"cpu": "2"}, priority=100))
        return setting, extender.asked("preempt")


def evicted(setting: Setting) -> list[str]:
    return sorted({"a-0", "a-1", "b-0", "b-1"} - {pod.name for pod in setting.cluster.pods.values()})


def only(node: str) -> Answer:
    """Strike out all nodes but one, whichever form the question has."""

    def answer(request: dict[str, Any]) -> Any:
        meta = request["NodeNameToMetaVictims"]
        if meta is None:
            meta = {
                name: {"Pods": [{"UID": p["metadata"]["uid"]} for p in on["Pods"]]}
                for name, on in request["NodeNameToVictims"].items()
            }
        return {"NodeNameToMetaVictims": {node: meta[node]}}

    return answer


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("node", ["a", "b"])
def test_the_extender_strikes_out_nodes(node: str, cached: bool) -> None:
    setting, (request,) = crowded(only(node), cached=cached)
    (gone,) = evicted(setting)
    assert gone.startswith(node)
    assert set(request) == {"Pod", "NodeNameToVictims", "NodeNameToMetaVictims"}
    form = "NodeNameToMetaVictims" if cached else "NodeNameToVictims"
    other = "NodeNameToVictims" if cached else "NodeNameToMetaVictims"
    assert request[other] is None
    assert request["Pod"]["metadata"]["name"] == "vip"
    (victim,) = request[form]["a"]["Pods"]
    assert (victim.keys() == {"UID"}) == cached
    assert request[form]["a"]["NumPDBViolations"] == 0


def test_the_extender_names_other_victims() -> None:
    both = {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "a-0"}, {"UID": "a-1"}]}}}
    setting, _ = crowded(lambda request: both, cached=True)
    assert evicted(setting) == ["a-0", "a-1"]


def test_where_no_node_is_left_nothing_is_evicted() -> None:
    setting, _ = crowded(lambda request: {}, cached=True)
    assert evicted(setting) == []
    assert setting.message("vip") == (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
        "preemption: no candidate node for preemption"
    )


ODD: dict[str, tuple[Any, str]] = {
    "an error": ((500, b""), "failed preempt with extender at URL"),
    "an unknown node": (
        {"NodeNameToMetaVictims": {"zebra": {"Pods": [{"UID": "a-0"}]}}},
        'nodeinfo not found for node name "zebra"',
    ),
    "an unknown pod": (
        {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "b-0"}]}}},
        "claims to preempt pod (UID: b-0) on node: a, but the pod is not found on that node",
    ),
}


@pytest.mark.parametrize("kind", ODD)
def test_an_answer_that_makes_no_sense_evicts_nobody(kind: str) -> None:
    answer, message = ODD[kind]
    setting, _ = crowded(lambda request: answer, cached=True)
    assert evicted(setting) == []
    assert "preemption: " in setting.message("vip")
    assert message in setting.message("vip")


@pytest.mark.parametrize("kind", ODD)
def test_where_it_may_be_ignored_the_plugin_decides(kind: str) -> None:
    setting, _ = crowded(lambda request: ODD[kind][0], cached=True, ignorable=True)
    assert len(evicted(setting)) == 1


@pytest.mark.parametrize("ignorable", [True, False])
def test_a_node_without_victims_is_dropped_or_an_error(ignorable: bool) -> None:
    answer = {"NodeNameToMetaVictims": {"a": {"Pods": []}, "b": {"Pods": [{"UID": "b-1"}]}}}
    setting, _ = crowded(lambda request: answer, cached=True, ignorable=ignorable)
    assert evicted(setting) == (["b-1"] if ignorable else [])
    if not ignorable:
        assert 'expected at least one victim pod on node "a"' in setting.message("vip")


def test_refused_by_the_extender_alone_no_eviction_helps() -> None:
    """FailedNodes are nodes where preemption is tried, but who the extender refuses has no victims there."""
    refusing = {"NodeNames": [], "FailedNodes": {"a": "no"}}
    with serving(filter=lambda request: refusing) as extender:
        setting = Setting({"urlPrefix": extender.url, "filterVerb": "filter", "nodeCacheCapable": True})
        setting.apply(make_node("a", cpu="4"), make_pod("old", uid="old", node_name="a", started=0.0))
        setting.apply(make_pod("vip", priority=100))
        assert "old" in {each.name for each in setting.cluster.pods.values()}
        assert setting.message("vip").startswith("0/1 nodes are available: 1 no. ")
