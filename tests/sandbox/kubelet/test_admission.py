"""Kubelet admission: what nodes refuse, in kubelet's words, and their arithmetic."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.decode import from_dict
from mooring.api.objects import Node, Pod
from mooring.sandbox.kubelet.admission import Needs, Room, needs_of
from tests.sandbox.kubelet.kit import Nodes, Tree, node, play, pod

RED = {"key": "red", "value": "x"}


@pytest.mark.parametrize(
    ("fields", "reason", "message"),
    [
        (
            {"cpu": "3"},
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000",
        ),
        (
            {"nodeSelector": {"disk": "ssd"}},
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 80}]}]},
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        ),
        (
            {"tolerations": []},
            "TaintToleration",
            "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
        ),
    ],
)
def test_refused_pods_fail_in_kubelets_words(fields: Tree, reason: str, message: str) -> None:
    tolerated = {"tolerations": [{"operator": "Exists"}]}

    async def scene(stage: Nodes) -> None:
        ports = [{"containerPort": 1, "hostPort": 80}]
        container = {
            "name": "c",
            "image": "i",
            "ports": ports,
            "resources": {"requests": {"cpu": "2"}},
        }
        first = await stage.run_pod("first", containers=[container], **tolerated)
        assert first["status"]["phase"] == "Running"
        status = (await stage.run_pod(**{**tolerated, **fields}))["status"]
        assert status["phase"] == "Failed"
        assert status["reason"] == reason
        assert status["message"] == f"Pod was rejected: {message}"
        (told,) = [each for each in await stage.events() if each.reason == reason]
        assert (told.type, told.message) == ("Warning", message)
        assert (await stage.status("first"))["phase"] == "Running"

    tainted = node(cpu="4")
    tainted["spec"] = {"taints": [{**RED, "effect": "NoExecute"}, {**RED, "effect": "NoSchedule"}]}
    play(scene, nodes=[tainted])


def test_only_taints_that_end_pods_matter_here() -> None:
    async def scene(stage: Nodes) -> None:
        assert (await stage.run_pod())["status"]["phase"] == "Running"

    cordoned = node()
    cordoned["spec"] = {"taints": [{**RED, "effect": "NoSchedule"}]}
    play(scene, nodes=[cordoned])


def test_the_first_of_two_that_are_too_much_together_stays() -> None:
    async def scene(stage: Nodes) -> None:
        phases = [(await stage.run_pod(f"p{at}", cpu="1500m"))["status"]["phase"] for at in range(4)]
        assert phases == ["Running", "Running", "Failed", "Failed"]
        await stage.delete("pods", "p0")
        await stage.rest()
        assert (await stage.run_pod("p5", cpu="1500m"))["status"]["phase"] == "Running"

    play(scene, nodes=[node(cpu="4")])


def test_extended_resources_that_a_node_does_not_know_are_somebody_elses() -> None:
    assert refusal({"example.com/licence": "1"}) is None
    told = refusal({"nvidia.com/gpu": "2"})
    assert told == ("OutOfnvidia.com/gpu", "requested: 2, used: 0, capacity: 1")
    assert refusal({"hugepages-2Mi": "2Mi", "cpu": "1"}) is not None


def refusal(requests: dict[str, str]) -> tuple[str, str] | None:
    room, here = Room(), machine(cpu="4", memory="8Gi", pods="110", **{"nvidia.com/gpu": "1"})
    wanted = asking(requests)
    found = room.refuse(here, wanted, needs_of(wanted))
    return None if found is None else (found.reason, found.message.partition(", ")[2])


def machine(**allocatable: str) -> Node:
    tree: dict[str, Any] = {**node(), "status": {"allocatable": allocatable}}
    found = from_dict(tree)
    assert isinstance(found, Node)
    return found


def asking(requests: dict[str, str]) -> Pod:
    tree = pod()
    tree["spec"]["containers"][0]["resources"] = {"requests": requests}
    found = from_dict(tree)
    assert isinstance(found, Pod)
    return found


PORT = st.tuples(st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]), st.just("TCP"), st.integers(1, 3))
NEEDS = st.builds(
    Needs,
    st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 2500)),
    st.lists(PORT, max_size=2).map(tuple),
)


@given(st.lists(st.tuples(NEEDS, st.integers(0, 5)), max_size=20))
def test_a_node_never_gives_more_than_it_has(arrivals: list[tuple[Needs, int]]) -> None:
    """Pods come, and some leave: what stays never takes more than there is, nor a port twice, and nobody is
    refused for whom there is room."""
    room, here, wanted = Room(), machine(cpu="4", memory="4000", pods="3"), asking({})
    total = {"cpu": 4000, "memory": 4000}
    inside: list[Needs] = []
    for needs, leaver in arrivals:
        if leaver < len(inside):
            room.take_back(inside.pop(leaver))
        used = {name: sum(each.requests.get(name, 0) for each in inside) for name in total}
        fits = len(inside) < 3 and all(
            amount == 0 or used[name] + amount <= total[name] for name, amount in needs.requests.items()
        )
        free = not any(
            (ip == other_ip or "0.0.0.0" in (ip, other_ip)) and number == other
            for each in inside
            for other_ip, _, other in each.ports
            for ip, _, number in needs.ports
        )
        assert (room.refuse(here, wanted, needs) is None) == (fits and free)
        if fits and free:
            room.give(needs)
            inside.append(needs)
    assert room.pods == len(inside)
