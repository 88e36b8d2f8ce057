"""NodePorts."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.objects import Pod
from mooring.framework.events import Action, ClusterEvent, Resource
from mooring.framework.status import Code, unschedulable
from mooring.plugins.node_ports import NodePorts
from mooring.runtime.engine_state import EngineState
from mooring.runtime.runners import FilterRunner, PluginError
from tests.plugins.plugin_kit import Cluster, hint, make, make_node, make_pod

DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports")


def port(text: str) -> dict[str, Any]:
    """A port written as [ip:]port[/protocol]."""
    address, _, protocol = text.partition("/")
    ip, _, number = address.rpartition(":")
    return {"hostPort": int(number), "hostIP": ip, "protocol": protocol}


def with_ports(name: str, *ports: str, **spec: Any) -> Pod:
    return make_pod(name, container={"ports": [port(each) for each in ports]}, **spec)


@pytest.mark.parametrize(
    ("wanted", "held", "collide"),
    [
        ("80", "80", True),
        ("80", "81", False),
        ("80/UDP", "80", False),  # no protocol means TCP
        ("80/TCP", "80", True),
        ("10.0.0.1:80", "10.0.0.2:80", False),
        ("10.0.0.1:80", "10.0.0.1:80", True),
        ("80", "10.0.0.1:80", True),  # no address means all of them
        ("0.0.0.0:80", "10.0.0.1:80", True),
        ("10.0.0.1:80", "0.0.0.0:80", True),
    ],
)
def test_collisions(wanted: str, held: str, collide: bool) -> None:
    cluster = Cluster([make_node("busy"), make_node("idle")], {"busy": [with_ports("there", held)]})
    answers = cluster.filter(make(NodePorts), with_ports("pod", wanted))
    assert answers == {"busy": TAKEN if collide else None, "idle": None}


def test_one_taken_port_of_several_is_enough() -> None:
    cluster = Cluster(
        [make_node("a"), make_node("b"), make_node("c")],
        {"a": [with_ports("x", "80")], "b": [with_ports("y", "443")], "c": [with_ports("z", "22")]},
    )
    answers = cluster.filter(make(NodePorts), with_ports("pod", "80", "443"))
    assert answers == {"a": TAKEN, "b": TAKEN, "c": None}


def test_sidecars_hold_ports_and_other_init_containers_do_not() -> None:
    init = {"name": "init", "ports": [port("80")]}
    sidecar = {**init, "restartPolicy": "Always"}
    cluster = Cluster(
        [make_node("a"), make_node("b")],
        {"a": [make_pod("x", initContainers=[sidecar])], "b": [make_pod("y", initContainers=[init])]},
    )
    assert cluster.filter(make(NodePorts), with_ports("pod", "80")) == {"a": TAKEN, "b": None}


def test_a_port_is_free_again_when_its_pod_is_gone() -> None:
    cluster = Cluster([make_node("n")], {"n": [with_ports("there", "80")]})
    pod = with_ports("pod", "80")
    assert cluster.filter(make(NodePorts), pod) == {"n": TAKEN}
    cluster.remove_pod("there")
    assert cluster.filter(make(NodePorts), pod) == {"n": None}


def test_a_pod_without_host_ports_skips_the_filter() -> None:
    pod = make_pod(container={"ports": [{"containerPort": 80}]})
    assert Cluster([make_node("n")]).pre_filter(make(NodePorts), pod).code is Code.SKIP


def test_the_filter_needs_pre_filter() -> None:
    cluster = Cluster([make_node("n")])
    with pytest.raises(PluginError, match='reading "PreFilterNodePorts" from cycleState: not found'):
        FilterRunner(make(NodePorts)).run(EngineState(), cluster.info(make_pod()), cluster.nodes)


@pytest.mark.parametrize(
    ("gone", "queued"),
    [
        (with_ports("gone", "80", nodeName="n"), True),
        (with_ports("gone", "80", status={"nominatedNodeName": "n"}), True),
        (with_ports("gone", "80"), False),
        (with_ports("gone", "81", nodeName="n"), False),
        (make_pod("gone", nodeName="n"), False),
    ],
)
def test_a_pod_that_held_the_port_wakes_others_when_it_goes(gone: Pod, queued: bool) -> None:
    assert hint(make(NodePorts), DELETE, with_ports("pod", "80"), gone, None) is queued


def test_a_new_node_has_all_ports_free() -> None:
    event = ClusterEvent(Resource.NODE, Action.ADD)
    assert hint(make(NodePorts), event, with_ports("pod", "80"), None, make_node("n"))
