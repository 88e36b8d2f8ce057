"""What the Node object decides: NodeUnschedulable, NodeName, TaintToleration, NodeDeclaredFeatures."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.framework.events import Action, ClusterEvent, Resource
from mooring.framework.status import Code, unresolvable
from mooring.plugins.node_declared_features import RESTART_ALL, USER_NAMESPACES, NodeDeclaredFeatures
from mooring.plugins.node_name import NodeName
from mooring.plugins.node_unschedulable import NodeUnschedulable
from mooring.plugins.taint_toleration import TaintToleration
from mooring.runtime.engine_state import EngineState
from mooring.runtime.runners import FilterRunner, PluginError, ScoreRunner
from tests.plugins.plugin_kit import Cluster, hint, make, make_node, make_pod

NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
NODE_TAINT = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
TOLERATION = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_TOLERATION)

CORDONED = {"unschedulable": True}
TOLERATES_CORDON = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]


def tainted(name: str, *taints: str) -> Any:
    """A node with taints written as key=value:effect."""
    parsed = []
    for taint in taints:
        pair, effect = taint.split(":")
        key, _, value = pair.partition("=")
        parsed.append({"key": key, "value": value, "effect": effect})
    return make_node(name, spec={"taints": parsed})


# ---- NodeUnschedulable


def test_cordoned_nodes_are_refused() -> None:
    cluster = Cluster([make_node("open"), make_node("closed", spec=CORDONED)])
    answers = cluster.filter(make(NodeUnschedulable), make_pod())
    assert answers == {"open": None, "closed": unresolvable("node(s) were unschedulable")}


@pytest.mark.parametrize(
    "toleration",
    [TOLERATES_CORDON[0], {"operator": "Exists"}, {"key": "node.kubernetes.io/unschedulable"}],
)
def test_a_cordon_is_tolerated_like_its_taint(toleration: dict[str, str]) -> None:
    cluster = Cluster([make_node("closed", spec=CORDONED)])
    answers = cluster.filter(make(NodeUnschedulable), make_pod(tolerations=[toleration]))
    assert answers == {"closed": None}


@pytest.mark.parametrize(
    ("old", "new", "queued"),
    [(None, {}, True), (None, CORDONED, False), (CORDONED, {}, True), ({}, {}, False), ({}, CORDONED, False)],
)
def test_an_opened_node_wakes_pods(old: Any, new: Any, queued: bool) -> None:
    before = None if old is None else make_node("n", spec=old)
    event = NODE_ADD if old is None else NODE_TAINT
    assert hint(make(NodeUnschedulable), event, make_pod(), before, make_node("n", spec=new)) is queued


@pytest.mark.parametrize(
    ("name", "tolerations", "queued"),
    [("pod", TOLERATES_CORDON, True), ("pod", [{"key": "x"}], False), ("other", TOLERATES_CORDON, False)],
)
def test_a_new_toleration_of_the_cordon_wakes_its_pod(name: str, tolerations: Any, queued: bool) -> None:
    new = make_pod(name, tolerations=tolerations)
    assert hint(make(NodeUnschedulable), TOLERATION, make_pod("pod"), make_pod(name), new) is queued


# ---- NodeName


def test_a_pod_that_names_a_node_goes_nowhere_else() -> None:
    cluster = Cluster([make_node("a"), make_node("b")])
    other = unresolvable("node(s) didn't match the requested node name")
    assert cluster.filter(make(NodeName), make_pod(nodeName="b")) == {"a": other, "b": None}
    assert cluster.filter(make(NodeName), make_pod(nodeName="gone")) == {"a": other, "b": other}
    assert cluster.filter(make(NodeName), make_pod()) == {"a": None, "b": None}


# ---- TaintToleration


def test_untolerated_hard_taints_are_refused() -> None:
    cluster = Cluster(
        [
            make_node("plain"),
            tainted("scheduled", "a=1:NoSchedule"),
            tainted("executed", "b=1:NoExecute"),
            tainted("preferred", "a=2:PreferNoSchedule"),
            tainted("both", "a=1:NoSchedule", "b=1:NoExecute"),
        ]
    )
    refused = unresolvable("node(s) had untolerated taint(s)")
    pod = make_pod(tolerations=[{"key": "a", "operator": "Equal", "value": "1"}])
    assert cluster.filter(make(TaintToleration), pod) == {
        "plain": None,
        "scheduled": None,
        "executed": refused,
        "preferred": None,
        "both": refused,
    }


def test_nodes_score_by_untolerated_soft_taints() -> None:
    cluster = Cluster(
        [
            tainted("none", "x=1:NoSchedule"),
            tainted("one", "a=1:PreferNoSchedule", "b=1:PreferNoSchedule"),
            tainted("two", "b=1:PreferNoSchedule", "c=1:PreferNoSchedule", "a=1:PreferNoSchedule"),
        ]
    )
    tolerations = [
        {"key": "a", "operator": "Exists", "effect": "PreferNoSchedule"},
        {"key": "b", "operator": "Exists", "effect": "NoSchedule"},  # another effect: no help here
    ]
    raw = cluster.score(make(TaintToleration), make_pod(tolerations=tolerations))
    assert raw == [0, 1, 2]
    assert cluster.normalize(make(TaintToleration), raw) == [100, 50, 0]
    assert cluster.normalize(make(TaintToleration), [0, 0, 0]) == [100, 100, 100]


def test_scoring_taints_needs_pre_score() -> None:
    cluster = Cluster([make_node("n")])
    message = 'failed to read "PreScoreTaintToleration" from cycleState: not found'
    with pytest.raises(PluginError, match=message):
        ScoreRunner(make(TaintToleration), 1).run(EngineState(), cluster.info(make_pod()), cluster.nodes)


HARD = "a=1:NoSchedule"


@pytest.mark.parametrize(
    ("old", "new", "queued"),
    [
        (None, [], True),
        (None, [HARD], False),
        ([HARD], [], True),
        ([HARD], ["a=1:PreferNoSchedule"], True),
        ([HARD], ["b=1:NoExecute"], False),
        ([], [], False),
    ],
)
def test_a_node_that_became_tolerable_wakes_pods(old: Any, new: Any, queued: bool) -> None:
    before = None if old is None else tainted("n", *old)
    event = NODE_ADD if old is None else NODE_TAINT
    assert hint(make(TaintToleration), event, make_pod(), before, tainted("n", *new)) is queued


def test_only_the_pods_own_tolerations_wake_it() -> None:
    plugin = make(TaintToleration)
    assert hint(plugin, TOLERATION, make_pod("pod"), make_pod("pod"), make_pod("pod"))
    assert not hint(plugin, TOLERATION, make_pod("pod"), make_pod("other"), make_pod("other"))


# ---- NodeDeclaredFeatures

RESTARTS = {"restartPolicyRules": [{"action": "RestartAllContainers"}]}


@pytest.mark.parametrize(
    ("pod", "needs"),
    [
        (make_pod(container=RESTARTS), {RESTART_ALL}),
        (make_pod(initContainers=[{"name": "init", **RESTARTS}]), {RESTART_ALL}),
        (make_pod(hostNetwork=True, hostUsers=False), {USER_NAMESPACES}),
        (make_pod(container=RESTARTS, hostNetwork=True, hostUsers=False), {RESTART_ALL, USER_NAMESPACES}),
    ],
)
def test_a_node_must_declare_what_the_pod_needs(pod: Any, needs: set[str]) -> None:
    features = [[], [RESTART_ALL], [USER_NAMESPACES], [USER_NAMESPACES, "Other", RESTART_ALL]]
    cluster = Cluster(make_node(f"n{i}", declaredFeatures=own) for i, own in enumerate(features))
    refused = unresolvable("node(s) didn't match Pod's required features")
    expected = {f"n{i}": None if needs <= set(own) else refused for i, own in enumerate(features)}
    assert cluster.filter(make(NodeDeclaredFeatures), pod) == expected


@pytest.mark.parametrize("pod", [make_pod(), make_pod(hostNetwork=True), make_pod(hostUsers=False)])
def test_a_pod_without_needs_skips_the_feature_filter(pod: Any) -> None:
    status = Cluster([make_node("n")]).pre_filter(make(NodeDeclaredFeatures), pod)
    assert status.code is Code.SKIP


def test_the_feature_filter_needs_pre_filter() -> None:
    cluster = Cluster([make_node("n")])
    runner = FilterRunner(make(NodeDeclaredFeatures))
    message = 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found'
    with pytest.raises(PluginError, match=message):
        runner.run(EngineState(), cluster.info(make_pod()), cluster.nodes)


def test_feature_events() -> None:
    plugin, pod = make(NodeDeclaredFeatures), make_pod("pod", container=RESTARTS)
    change = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_DECLARED_FEATURE)
    plain, able = make_node("n"), make_node("n", declaredFeatures=[RESTART_ALL])
    assert hint(plugin, NODE_ADD, pod, None, plain)
    assert hint(plugin, change, pod, plain, able)
    assert not hint(plugin, change, pod, able, able)
    update = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE)  # the generic one, of all update bits
    assert hint(plugin, update, pod, pod, make_pod("pod"))
    assert not hint(plugin, update, pod, pod, make_pod("pod", {"cpu": "1"}, container=RESTARTS))
    assert not hint(plugin, update, pod, make_pod("other", container=RESTARTS), make_pod("other"))
