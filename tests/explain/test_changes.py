"""What would make a pod fit: each change is named, counted, and checked by making it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.decode import from_dict
from mooring.api.meta import KubeObject
from mooring.api.objects import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
)
from mooring.api.storage import StorageClass, TopologySelectorRequirement, TopologySelectorTerm
from mooring.explain.alterations import with_max_skew
from mooring.explain.explain import explain_objects
from mooring.explain.explanation import Change, Now
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.status import Status, unresolvable, unschedulable
from mooring.testing import affinity_term, make_node, make_pod, spread_constraint
from mooring.testing.nodes import HOSTNAME, ZONE
from tests.calls import count_calls
from tests.explain.kit import Setting
from tests.long_lists import LONG_SPECS
from tests.strategies import examples


def asked(pod: Pod, *objects: KubeObject, plugins: tuple[type[Plugin], ...] = ()) -> Now:
    """What there is to say about a pending pod among these objects."""
    setting = Setting(None, *plugins)
    for obj in (*objects, pod):
        setting.scheduler.apply(obj)
    explanation = explain_objects(setting.scheduler, pod, "")
    assert explanation.now is not None
    return explanation.now


def fitting(pod: Pod, *objects: KubeObject) -> int:
    return asked(pod, *objects).feasible


def the(kind: str, now: Now) -> Change:
    [found] = [change for change in now.changes if change.kind == kind]
    return found


def kinds(now: Now) -> dict[str, int]:
    return {change.kind: change.nodes for change in now.changes}


def filler(node: str, cpu: str = "3", **fields: Any) -> Pod:
    return make_pod(f"on-{node}", node_name=node, requests={"cpu": cpu}, **fields)


# ---- resources


def test_the_smallest_shortfall_and_where_it_is() -> None:
    nodes = [make_node("a"), make_node("b"), make_node("c", cpu="1")]
    now = asked(
        make_pod(requests={"cpu": "2", "memory": "1Gi"}), *nodes, filler("a", "3"), filler("b", "2500m")
    )
    change = the("resource", now)
    assert change.nodes == 3
    assert change.text == "request at most 1500m cpu instead of 2, as b has free"
    assert change.command == (
        "kubectl set resources pod pod -c main --requests=cpu=1500m -n default "
        "--dry-run=client -o yaml | kubectl replace --force -f -"
    )
    assert change.field == "spec.containers[*].resources.requests[cpu]"


@given(free=st.lists(st.integers(0, 3900), min_size=1, max_size=6), wanted=st.integers(1, 4000))
@examples(40)
def test_the_shortfall_is_exact(free: list[int], wanted: int) -> None:
    nodes = [make_node(f"n{i}", cpu="4000m") for i in range(len(free))]
    pods = [filler(f"n{i}", f"{4000 - each}m") for i, each in enumerate(free)]
    pod = make_pod(requests={"cpu": f"{wanted}m"})
    now = asked(pod, *nodes, *pods)
    if now.feasible or not max(free):
        assert max(free) >= wanted or "resource" not in kinds(now)  # to request nothing is no advice
        return
    most = the("resource", now).text.split()[3]
    assert (int(most[:-1]) if most.endswith("m") else int(most) * 1000) == max(free)
    assert fitting(make_pod(requests={"cpu": most}), *nodes, *pods) > 0


def test_a_pod_larger_than_any_node_is_told_so() -> None:
    now = asked(make_pod(requests={"cpu": "9"}), make_node("a", cpu="4"), make_node("b", cpu="8"))
    assert the("resource", now).text == "request at most 8 cpu instead of 9, as b has free"
    assert the("largerNode", now).text == (
        "add a node with at least 9 cpu: the largest offers 8 cpu (otherwise like a)"
    )
    assert "newNode" not in kinds(now)


def test_what_is_lacking_twice_is_no_single_change() -> None:
    pod = make_pod(requests={"cpu": "2", "memory": "2Gi"})
    full = make_pod("full", node_name="a", requests={"cpu": "3", "memory": "7Gi"}, priority=2_000_000_000)
    now = asked(pod, make_node("a", memory="8Gi"), full, make_node("b", cpu="1", memory="1Gi"))
    assert kinds(now) == {"newNode": 1}
    now = asked(pod, make_node("b", cpu="1", memory="1Gi"))
    assert [change.text for change in now.changes] == [
        "add a node with at least 2 cpu and 2Gi memory: the largest offers 1 cpu and 1Gi memory "
        "(otherwise like b)"
    ]


def test_a_resource_that_no_node_offers_and_what_was_meant() -> None:
    pod = make_pod(limits={"nvidia.com/gpus": 1})
    gpu = make_node("gpu", resources={"nvidia.com/gpu": 1})
    now = asked(pod, make_node("a"), gpu)
    change = the("resourceName", now)
    assert change.text == "no node offers nvidia.com/gpus; did you mean nvidia.com/gpu?"
    assert (change.nodes, change.examples) == (1, ["gpu"])
    assert '"nvidia.com/gpus":null,"nvidia.com/gpu":1' in change.command
    [change] = asked(pod, make_node("a")).changes
    assert change.text == (
        "add a node with at least 1 nvidia.com/gpus: no node offers nvidia.com/gpus (otherwise like a)"
    )


def test_nodes_with_as_many_pods_as_they_may_have() -> None:
    now = asked(make_pod(), make_node("a", pods=1), filler("a"))
    change = the("podSlots", now)
    assert (change.nodes, change.command) == (1, "kubectl delete pod on-a -n default")
    others = [make_pod(name, node_name="a") for name in ("one", "two")]
    assert "podSlots" not in kinds(asked(make_pod(), make_node("a", pods=1), *others))


# ---- taints and labels


def test_each_taint_that_would_have_to_be_tolerated() -> None:
    nodes = [
        make_node("gpu-1", taints="dedicated=gpu:NoSchedule"),
        make_node("gpu-2", taints="dedicated=gpu:NoSchedule"),
        make_node("ill", taints="node.kubernetes.io/not-ready:NoExecute"),
        make_node("small", cpu="1", taints="dedicated=db:NoSchedule"),
        make_node("rather-not", cpu="1", taints="busy:PreferNoSchedule"),
    ]
    pod = make_pod(requests={"cpu": "2"})
    now = asked(pod, *nodes)
    texts = {change.text: change.nodes for change in now.changes if change.kind == "toleration"}
    assert texts == {
        "remove the taint dedicated=gpu:NoSchedule from gpu-1, or tolerate it": 2,
        "end the condition behind the taint node.kubernetes.io/not-ready:NoExecute on ill": 1,
    }
    assert fitting(make_pod(requests={"cpu": "2"}, tolerations="dedicated=gpu:NoSchedule"), *nodes) == 2


def test_taints_that_only_help_together_are_named_together() -> None:
    now = asked(make_pod(), make_node("a", taints=["one:NoSchedule", "two:NoExecute"]))
    change = the("toleration", now)
    assert change.text == "remove the taints one:NoSchedule, two:NoExecute from a"
    assert change.command == "kubectl taint node a one:NoSchedule- two:NoExecute-"


@pytest.mark.parametrize("taints", [(), "node.kubernetes.io/unschedulable:NoSchedule"])
def test_a_cordoned_node(taints: Any) -> None:
    now = asked(make_pod(), make_node("a", unschedulable=True, taints=taints), make_node("b", pods=0))
    change = the("uncordon", now)
    assert (change.nodes, change.text, change.command) == (1, "uncordon a", "kubectl uncordon a")
    assert "toleration" not in kinds(now)


def test_the_part_of_a_node_selector_that_is_too_much() -> None:
    nodes = [make_node("a", labels={"disk": "ssd"}), make_node("b", labels={"disk": "ssd"}), make_node("c")]
    now = asked(make_pod(node_selector={"disk": "ssd", "gpu": "yes"}), *nodes)
    change = the("nodeSelector", now)
    assert (change.text, change.nodes) == ("label node a with gpu=yes: no node has this label", 2)
    assert (change.field, change.command) == ("spec.nodeSelector[gpu]", "kubectl label node a gpu=yes")
    now = asked(make_pod(node_selector={"disk": "no", "gpu": "yes"}), *nodes)
    assert (the("nodeSelector", now).text, the("nodeSelector", now).nodes) == ("drop the node selector", 3)
    change = the("nodeSelector", asked(make_pod(node_selector={"disk": "sdd"}), *nodes))
    assert change.text == "label node a with disk=sdd: no node has this value, only ssd"
    assert change.command == "kubectl label node a disk=sdd --overwrite"


def test_labels_that_kubernetes_sets_are_not_to_be_changed_by_hand() -> None:
    web = make_pod("web-1", node_selector={ZONE: "y"}, owner="StatefulSet/web")
    change = the("nodeSelector", asked(web, make_node("a", zone="x")))
    assert change.text == f"drop the node selector {ZONE}=y"
    assert change.command == (
        "kubectl patch statefulset web --type=merge -p "
        '\'{"spec":{"template":{"spec":{"nodeSelector":{"topology.kubernetes.io/zone":null}}}}}\' -n default'
    )


def affine(*requirements: NodeSelectorRequirement) -> Pod:
    term = NodeSelectorTerm(match_expressions=list(requirements))
    node = NodeAffinity(required=NodeSelector(node_selector_terms=[term]))
    pod = make_pod()
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, affinity=Affinity(node_affinity=node))
    )


def test_the_requirement_of_a_node_affinity_that_is_too_much() -> None:
    zone = NodeSelectorRequirement(key=ZONE, operator="In", values=["x", "y"])
    disk = NodeSelectorRequirement(key="disk", operator="Exists")
    nodes = [make_node("a", zone="x"), make_node("b", zone="z")]
    now = asked(affine(zone, disk), *nodes)
    change = the("nodeAffinity", now)
    assert (change.text, change.nodes) == ("drop disk from the required node affinity", 1)
    assert change.field.endswith("nodeSelectorTerms[0]")
    change = the("nodeAffinity", asked(affine(disk), *nodes))
    assert (change.text, change.nodes) == ("drop the required node affinity", 2)


# ---- other pods


def web(name: str, node: str = "", **fields: Any) -> Pod:
    return make_pod(name, labels={"app": "web"}, node_name=node, **fields)


def test_how_far_a_spread_would_have_to_be_loosened() -> None:
    nodes = [make_node("a", zone="x"), make_node("b", zone="y", cpu="1"), make_node("c")]
    others = [web(f"w{i}", "a") for i in range(3)]
    pod = web("pod", requests={"cpu": "2"}, spread=[spread_constraint(ZONE, {"app": "web"})])
    now = asked(pod, *nodes, *others)
    change = the("topologySpread", now)
    assert change.text == f"raise maxSkew to 4, or drop the spread of app=web over {ZONE} (maxSkew 1)"
    assert '"topologySpreadConstraints":[{' in change.command
    assert '"maxSkew":4' in change.command
    assert change.nodes == 2
    assert fitting(with_max_skew(pod, 0, 3), *nodes, *others) == 0
    assert fitting(with_max_skew(pod, 0, 4), *nodes, *others) == 1


def test_a_spread_that_no_skew_helps_is_to_be_dropped() -> None:
    pod = web("pod", spread=[spread_constraint(ZONE, {"app": "web"})])
    assert the("topologySpread", asked(pod, make_node("a"))).text.endswith("(maxSkew 1)")


def test_an_anti_affinity_that_would_have_to_go() -> None:
    nodes = [make_node("a"), make_node("b", cpu="1")]
    pod = web("pod", requests={"cpu": "2"}, pod_anti_affinity=[affinity_term({"app": "db"})])
    db = make_pod("db-0", labels={"app": "db"}, node_name="a")
    change = the("podAntiAffinity", asked(pod, *nodes, db))
    assert change.text == f"drop the anti-affinity against app=db per {HOSTNAME}"
    assert (change.nodes, change.examples) == (1, ["a"])


def test_an_affinity_that_nobody_meets() -> None:
    pod = web("pod", pod_affinity=[affinity_term({"app": "db"}, ZONE)])
    change = the("podAffinity", asked(pod, make_node("a", zone="x"), make_node("b")))
    assert (change.text, change.nodes) == (f"drop the affinity to app=db per {ZONE}", 2)


def test_pods_that_do_not_want_this_one_near() -> None:
    shy = [
        make_pod(f"shy-{i}", node_name=name, pod_anti_affinity=[affinity_term({"app": "web"})])
        for i, name in enumerate("abc")
    ]
    now = asked(web("pod"), *(make_node(name) for name in "abc"), *shy)
    change = the("existingAntiAffinity", now)
    assert change.text == "delete default/shy-0 from a: anti-affinity to this pod"
    assert (change.nodes, change.command) == (1, "kubectl delete pod shy-0 -n default")


# ---- ports, volumes, plugins


def test_a_host_port_and_who_has_it() -> None:
    holder = make_pod("ingress", node_name="a", host_ports=[80])
    now = asked(make_pod(host_ports=[80, 81]), make_node("a"), make_node("b", cpu="0", pods=0), holder)
    change = the("hostPort", now)
    assert change.text == "free host port 80/TCP, or do without it (default/ingress has it on a)"
    assert change.command == "kubectl delete pod ingress -n default"
    assert change.field == "spec.containers[0].ports[0].hostPort"


def test_a_claim_that_does_not_exist_keeps_the_pod_from_every_node() -> None:
    now = asked(make_pod(claims="data"), make_node("a"), make_node("b", taints="x:NoSchedule"))
    [change] = now.changes
    assert (change.kind, change.text) == ("claim", "create PersistentVolumeClaim default/data")
    assert (change.nodes, change.examples) == (1, ["a"])  # b stays tainted
    assert "kubectl create -f -" in change.command
    assert now.refused[0].nodes == 2
    assert 'persistentvolumeclaim "data" not found' in now.refused[0].reasons[0]


class Choosy(Plugin):
    name = "Choosy"

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return unschedulable("not my colour") if node.name != "c" else None


def test_a_plugin_nobody_knows_is_named_where_it_alone_objects() -> None:
    nodes = [make_node("a"), make_node("b"), make_node("c", taints="x:NoSchedule"), make_node("d", cpu="1")]
    now = asked(make_pod(requests={"cpu": "2"}), *nodes, plugins=(Choosy,))
    assert "plugin" not in kinds(now)  # what would change its mind is unknown
    assert the("toleration", now).examples == ["c"]
    assert [change.nodes for change in now.changes] == sorted((c.nodes for c in now.changes), reverse=True)
    [closest] = asked(make_pod(requests={"cpu": "2"}), *nodes[:2], plugins=(Choosy,)).closest
    assert (closest.nodes, closest.refused_by[0].plugin) == (2, "Choosy")


class Closed(Plugin):
    name = "Closed"

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Status:
        return unresolvable("closed today")


def test_the_filters_are_asked_also_where_a_pre_filter_rejects_the_pod() -> None:
    nodes = [make_node("a", taints="x:NoSchedule"), make_node("b")]
    now = asked(make_pod(), *nodes, plugins=(Closed,))
    assert now.changes == []
    [closest] = now.closest
    assert (closest.examples, [each.plugin for each in closest.refused_by]) == (["b"], ["Closed"])


def test_a_missing_claim_is_tried_with_the_default_class() -> None:
    wait = StorageClass(provisioner="x", volume_binding_mode="WaitForFirstConsumer")
    wait.metadata.name = "standard"
    wait.metadata.annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    topology = TopologySelectorRequirement(key=ZONE, values=["x"])
    wait.allowed_topologies = [TopologySelectorTerm(match_label_expressions=[topology])]
    now = asked(make_pod(claims="data"), make_node("a", zone="x"), make_node("b", zone="y"), wait)
    [change] = now.changes
    assert (change.kind, change.examples) == ("claim", ["a"])  # the class provisions in zone x only


def test_when_no_single_change_would_do_the_closest_nodes_are_named() -> None:
    nodes = [
        make_node("a", cpu="1", taints="x:NoSchedule"),
        make_node("b", cpu="1", taints="x:NoSchedule"),
        make_node("c", cpu="1", taints="x:NoSchedule", unschedulable=True),
    ]
    now = asked(make_pod(requests={"cpu": "2"}), *nodes)
    [pair] = now.changes
    assert (pair.kind, pair.nodes, pair.examples) == ("pair", 2, ["a", "b"])
    assert [each.kind for each in pair.parts] == ["resource", "toleration"]
    assert pair.parts[1].command == "kubectl taint node a x:NoSchedule-"
    now = asked(make_pod(requests={"cpu": "2"}, node_selector={"y": "z"}), *nodes)
    assert now.changes == []
    assert [(each.nodes, each.examples) for each in now.closest] == [(2, ["a", "b"])]
    assert [each.plugin for each in now.closest[0].refused_by] == [
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
    ]


def test_each_pair_makes_the_pod_fit() -> None:
    nodes = [make_node("a", cpu="1"), make_node("b", taints="x:NoSchedule", labels={"disk": "ssd"})]
    pod = make_pod(requests={"cpu": "2"}, node_selector={"disk": "ssd", "gpu": "yes"})
    now = asked(pod, *nodes)
    assert {change.kind for change in now.changes} == {"pair"}
    pair = next(each for each in now.changes if each.parts[0].kind == "toleration")
    assert [each.command for each in pair.parts] == [
        "kubectl taint node b x:NoSchedule-",
        "kubectl label node b gpu=yes",
    ]
    assert fitting(pod, make_node("b", labels={"disk": "ssd", "gpu": "yes"})) == 1


def test_gates_are_removed_in_addition() -> None:
    gated = make_pod(scheduling_gates=["example.com/quota"])
    [change] = asked(gated, make_node("a")).changes
    assert change.text == "remove scheduling gate example.com/quota"
    assert change.command.startswith("kubectl patch pod pod --type=json -p ")
    [pair] = asked(gated, make_node("a", taints="x:NoSchedule")).changes
    assert [each.kind for each in pair.parts] == ["schedulingGate", "toleration"]


def test_a_spec_without_end_is_not_tried_without_end() -> None:
    pod = make_pod(node_selector={f"label-{i}": "x" for i in range(3000)}, requests={"cpu": "9"})
    now = asked(pod, make_node("a"))
    [pair] = now.changes
    assert [each.kind for each in pair.parts] == ["resource", "nodeSelector"]


def long_pod(kind: str, n: int) -> Pod:
    """One that neither its node selector nor its request lets in."""
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "9"}}}], **LONG_SPECS[kind](n)}
    tree = {"metadata": {"name": "p", "uid": "p"}, "spec": {**spec, "nodeSelector": {"x": "y"}}}
    pod = from_dict({"apiVersion": "v1", "kind": "Pod", **tree})
    assert isinstance(pod, Pod)
    return pod


@pytest.mark.parametrize(("kind", "terms", "most"), [("hard spread", 1000, 30), ("sidecars", 500, 70)])
def test_an_explanation_costs_some_tens_of_attempts(kind: str, terms: int, most: int) -> None:
    pod, node = long_pod(kind, terms), make_node("a")
    asked(pod, node)
    setting = Setting(None)
    setting.apply(node)
    one = count_calls(lambda: setting.scheduler.rehearse(PodInfo.of(pod, Shape(pod))))
    assert count_calls(lambda: asked(pod, node)) < most * one


# ---- one more node


def test_one_more_node_would_do_where_all_are_full() -> None:
    now = asked(make_pod(requests={"cpu": "2"}), make_node("a", zone="x"), filler("a"))
    assert the("newNode", now).text == "add a node like a (4 cpu, 16Gi memory, x)"


def test_a_new_node_has_the_pods_that_every_node_has() -> None:
    daemon = filler("a", owner="DaemonSet/agent")
    now = asked(make_pod(requests={"cpu": "2"}), make_node("a"), daemon)
    assert "newNode" not in kinds(now)


def test_a_new_node_does_not_help_a_pod_that_asks_for_a_node_by_name() -> None:
    pod = make_pod(requests={"cpu": "2"}, node_selector={HOSTNAME: "a"})
    assert "newNode" not in kinds(asked(pod, make_node("a"), filler("a")))


def test_a_new_node_does_not_move_the_pods_of_its_zone() -> None:
    pod = make_pod(labels={"app": "web"}, pod_anti_affinity=[affinity_term({"app": "web"}, ZONE)])
    now = asked(pod, make_node("a", zone="x"), web("other", "a"))
    assert "newNode" not in kinds(now)
    per_node = make_pod(labels={"app": "web"}, pod_anti_affinity=[affinity_term({"app": "web"})])
    assert "newNode" in kinds(asked(per_node, make_node("a", zone="x"), web("other", "a")))


# ---- preemption


def test_what_preemption_would_do() -> None:
    nodes = [make_node("a"), make_node("b")]
    low, lower = filler("a", priority=5), filler("b", priority=1)
    now = asked(make_pod(requests={"cpu": "2"}, priority=10), *nodes, low, lower)
    assert now.preemption is not None
    assert (now.preemption.helps, now.preemption.node, now.preemption.victims) == (
        True,
        "b",
        ["default/on-b"],
    )
    assert now.preemption.candidates == 2
    assert "priority" not in kinds(now)


def test_the_priority_that_it_would_take() -> None:
    nodes = [make_node("a"), make_node("b")]
    others = [filler("a", priority=50), filler("b", priority=70)]
    now = asked(make_pod(requests={"cpu": "2"}, priority=10), *nodes, *others)
    assert now.preemption is not None
    assert not now.preemption.helps
    assert "No preemption victims found" in now.preemption.message
    change = the("priority", now)
    assert change.text == "raise the priority to 51 or more (it has 10), to evict default/on-a from a"
    assert change.command.startswith("kubectl create priorityclass priority-51 --value=51 && kubectl patch ")
    assert change.nodes == 1
    helps = [asked(make_pod(requests={"cpu": "2"}, priority=p), *nodes, *others).preemption for p in (50, 51)]
    assert [each is not None and each.helps for each in helps] == [False, True]


def test_a_pod_that_never_preempts_is_told_that_it_could() -> None:
    pod = make_pod(requests={"cpu": "2"}, priority=10, preemption_policy="Never")
    change = the("priority", asked(pod, make_node("a"), filler("a", priority=1)))
    assert change.text.startswith("set a preemptionPolicy other than Never, to evict default/on-a")
    assert change.field == "spec.preemptionPolicy"


def test_nodes_promised_to_others() -> None:
    promised = make_pod("vip", priority=9, requests={"cpu": "3"}, nominated_node="a")
    now = asked(make_pod(requests={"cpu": "2"}), make_node("a"), promised)
    assert the("nomination", now).nodes == 1
    assert now.refused[0].plugin == "pods nominated there"


def test_a_pod_that_fits_needs_no_change() -> None:
    now = asked(make_pod(), make_node("a"), make_node("b", taints="x:NoSchedule"))
    assert (now.feasible, now.changes, now.closest) == (1, [], [])
    assert [each.node for each in now.ranking] == ["a"]
    assert now.refused[0].examples == ["b"]
