"""Decoding objects, reading manifests, and what is said about bad ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.api.decode import (
    KINDS,
    MalformedObject,
    UnknownKind,
    from_dict,
    load_manifests,
    load_sources,
    validate,
)
from mooring.api.objects import Node, Pod
from mooring.api.resources import host_ports, pod_requests


def pod(spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", **metadata},
        "spec": {} if spec is None else spec,
    }


def only_pod(text: str) -> Pod:
    found = load_manifests(text, "test.yaml")
    assert not found.problems
    (obj,) = found.objects
    assert isinstance(obj, Pod)
    return obj


# ---- from_dict ------------------------------------------------------------------------------------


def test_nulls_are_absent() -> None:
    obj = from_dict(pod({"containers": None, "nodeSelector": None}, creationTimestamp=None, labels=None))
    assert isinstance(obj, Pod)
    assert obj.spec.containers == []
    assert obj.metadata.labels == {}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_decodes_from_its_name_alone(kind: str) -> None:
    obj = from_dict({"kind": kind, "metadata": {"name": "x"}})
    assert type(obj) is KINDS[kind].model
    validate(obj)


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (pod({"priority": "high"}), 'Pod default/web: spec.priority: found "high", expected an integer'),
        (pod(labels={"a": "b", "x.io/y": 5}), "metadata.labels[x.io/y]: found 5, expected a string"),
        (pod(labels={1: "x"}), "metadata.labels: found 1, expected text for a key"),
        (pod({"hostNetwork": "yes"}), 'spec.hostNetwork: found "yes", expected true or false'),
        (pod({"containers": {"a": 1}}), 'spec.containers: found {"a": 1}, expected a list'),
        (pod([]), "spec: found [], expected an object"),
        (
            pod({"containers": [{"resources": {"requests": {"cpu": "1", "memory": True}}}]}),
            "spec.containers[0].resources.requests.memory: found true, expected a quantity such as",
        ),
        (
            {"kind": "CSINode", "metadata": {"name": "n"}, "spec": {"drivers": [{}]}},
            "CSINode n: spec.drivers[0].name: found nothing, expected a value",
        ),
    ],
)
def test_what_does_not_decode_is_told_by_field(obj: dict[str, Any], message: str) -> None:
    with pytest.raises(MalformedObject) as caught:
        from_dict(obj)
    assert message in str(caught.value)


def test_a_kind_of_another_group_is_another_kind() -> None:
    service = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "x"}}
    with pytest.raises(UnknownKind, match="Service x: not a kind of apiVersion"):
        from_dict(service)


# ---- validate -------------------------------------------------------------------------------------


def node_affinity(*expressions: dict[str, Any], fields: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    term = {"matchExpressions": list(expressions), "matchFields": fields or []}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def spread(**changes: Any) -> dict[str, Any]:
    good = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**good, **changes}]}


def anti_affinity(**term: Any) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@pytest.mark.parametrize(
    ("spec", "field", "expected"),
    [
        ({"overhead": {"cpu": "12x"}}, "spec.overhead.cpu", "a quantity such as"),
        ({"overhead": {"cpu": "-1"}}, "spec.overhead.cpu", "zero or more"),
        (spread(maxSkew=0), "spec.topologySpreadConstraints[0].maxSkew", "above 0"),
        (spread(topologyKey=""), "spec.topologySpreadConstraints[0].topologyKey", "a node label"),
        (spread(whenUnsatisfiable="Maybe"), "spec.topologySpreadConstraints[0].whenUnsatisfiable", "one of"),
        (
            spread(labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
            "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator",
            "one of the operators In, NotIn, Exists, DoesNotExist",
        ),
        ({"tolerations": [{"operator": "Like"}]}, "spec.tolerations[0].operator", "one of Equal, Exists"),
        (
            node_affinity({"key": "a", "operator": "Gt", "values": ["x"]}),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            ".nodeSelectorTerms[0].matchExpressions[0].values",
            "exactly one value, an integer",
        ),
        (
            node_affinity(fields=[{"key": "metadata.name", "operator": "Exists"}]),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            ".nodeSelectorTerms[0].matchFields[0].operator",
            "one of the operators In, NotIn",
        ),
        (
            anti_affinity(labelSelector={}),
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey",
            "the name of a node label",
        ),
    ],
)
def test_validate_refuses_by_field(spec: dict[str, Any], field: str, expected: str) -> None:
    with pytest.raises(MalformedObject) as caught:
        validate(from_dict(pod(spec)))
    assert caught.value.field == field
    assert expected in caught.value.expected


@pytest.mark.parametrize(
    "spec",
    [
        spread(),
        {"tolerations": [{"operator": operator} for operator in ("", "Equal", "Exists", "Lt", "Gt")]},
        node_affinity({"key": "a", "operator": "Gt", "values": ["1"]}, {"key": "b", "operator": "Exists"}),
        anti_affinity(topologyKey="zone", labelSelector={"matchLabels": {"a": "b"}}),
    ],
)
def test_validate_lets_good_pods_through(spec: dict[str, Any]) -> None:
    validate(from_dict(pod(spec)))


def test_validate_looks_at_taints_and_allocatable() -> None:
    node = {"kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "Never"}]}}
    with pytest.raises(MalformedObject, match=r"spec\.taints\[0\]\.effect: found \"Never\", expected one of"):
        validate(from_dict(node))
    with pytest.raises(MalformedObject, match=r"status\.allocatable\.cpu"):
        validate(from_dict({**node, "spec": {}, "status": {"allocatable": {"cpu": "x"}}}))


# ---- manifests ------------------------------------------------------------------------------------


def test_one_bad_object_does_not_hide_the_others() -> None:
    text = """\
kind: Pod
metadata: {name: good}
---
kind: Pod
metadata: {name: bad}
spec: {priority: high}
---
kind: [unclosed
---
# nothing here
---
just text
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
---
kind: Pod
metadata: {}
---
kind: Node
metadata: {name: last}
"""
    found = load_manifests(text, "all.yaml")
    assert [obj.key for obj in found.objects] == ["default/good", "last"]
    assert [(each.kind, each.key) for each in found.ignored] == [("Deployment", "shop/web")]
    problems = [str(problem) for problem in found.problems]
    assert problems[0] == 'all.yaml: Pod default/bad: spec.priority: found "high", expected an integer'
    assert problems[1].startswith("all.yaml: line 9, column 1: not YAML: ")
    assert problems[2] == 'all.yaml: found "just text", expected an object with apiVersion and kind'
    assert problems[3] == "all.yaml: Pod: metadata.name: found nothing, expected a name"
    assert len(problems) == 4


def test_lists_are_flattened() -> None:
    pods = {"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}
    text = json.dumps({"kind": "List", "items": [pods, pod()]}, indent="\t")
    assert [obj.key for obj in load_manifests(text, "x").objects] == ["default/a", "default/web"]
    twice = load_manifests(json.dumps(pod()) + "\n\n" + json.dumps(pod(name="other")), "x")
    assert [obj.name for obj in twice.objects] == ["web", "other"]


def test_yaml_scalars_read_as_kubernetes_reads_them() -> None:
    text = """
kind: Pod
metadata:
  name: web
  creationTimestamp: 2024-01-01T00:00:00Z
  annotations: {at: 12:30:45, day: 2024-01-01}
spec:
  containers: [{resources: {requests: {cpu: .5, memory: 1e3}}}]
"""
    obj = only_pod(text)
    assert obj.metadata.creation_timestamp == "2024-01-01T00:00:00Z"
    assert obj.metadata.annotations == {"at": "12:30:45", "day": "2024-01-01"}
    requests = pod_requests(obj, use_status=False, pod_level=True, non_missing=False)
    assert requests == {"cpu": 500, "memory": 1000}


def test_defaults_of_the_api_server() -> None:
    text = """
kind: Pod
metadata: {name: web}
spec:
  schedulerName: ""
  hostNetwork: true
  containers:
  - resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}
    ports: [{containerPort: 80}, {containerPort: 81, hostPort: 90, protocol: UDP}]
"""
    obj = only_pod(text)
    requests = pod_requests(obj, use_status=False, pod_level=True, non_missing=False)
    assert requests == {"cpu": 1000, "memory": 2**30}
    assert host_ports(obj) == (("0.0.0.0", "TCP", 80), ("0.0.0.0", "UDP", 90))
    assert obj.spec.scheduler_name == "default-scheduler"
    assert (obj.namespace, obj.priority, obj.status.phase) == ("default", 0, "Pending")
    assert obj.uid
    assert obj.uid == only_pod(text).uid != only_pod(text.replace("web", "other")).uid


def test_pod_level_limits_bring_requests() -> None:
    text = """
kind: Pod
metadata: {name: web}
spec:
  resources: {limits: {cpu: 4, memory: 2Gi}}
  containers: [{resources: {requests: {cpu: 100m}}}, {resources: {requests: {cpu: 250u}}}]
"""
    obj = only_pod(text)
    assert obj.spec.resources is not None
    assert obj.spec.resources.requests == {"cpu": "100250000n", "memory": "2Gi"}


def test_a_node_without_allocatable_gives_its_capacity() -> None:
    found = load_manifests("{kind: Node, metadata: {name: n}, status: {capacity: {cpu: 4}}}", "x")
    (node,) = found.objects
    assert isinstance(node, Node)
    assert node.status.allocatable == {"cpu": 4}


CLASSES = """
{kind: PriorityClass, metadata: {name: high}, value: 100, preemptionPolicy: Never}
---
{kind: PriorityClass, metadata: {name: usual}, value: 7, globalDefault: true}
"""


@pytest.mark.parametrize(
    ("spec", "priority", "policy"),
    [
        ("{priorityClassName: high}", 100, "Never"),
        ("{priorityClassName: high, priority: 5}", 5, None),
        ("{priorityClassName: system-node-critical}", 2_000_001_000, "PreemptLowerPriority"),
        ("{priorityClassName: system-cluster-critical}", 2_000_000_000, "PreemptLowerPriority"),
        ("{}", 7, "PreemptLowerPriority"),
    ],
)
def test_priorities_come_from_classes_of_any_source(spec: str, priority: int, policy: str | None) -> None:
    text = f"{{kind: Pod, metadata: {{name: web}}, spec: {spec}}}"
    found = load_sources([(text, "pods.yaml"), (CLASSES, "classes.yaml")])
    (obj,) = (obj for obj in found.objects if isinstance(obj, Pod))
    assert (obj.spec.priority, obj.spec.preemption_policy) == (priority, policy)


def test_a_class_that_is_not_there_is_a_problem() -> None:
    found = load_manifests("{kind: Pod, metadata: {name: web}, spec: {priorityClassName: gone}}", "x")
    assert not found.objects
    assert "spec.priorityClassName" in str(found.problems[0])


def test_the_same_object_twice() -> None:
    one, other = json.dumps(pod()), json.dumps(pod({"priority": 3}))
    assert len(load_sources([(one, "a"), (one, "b")]).objects) == 1
    found = load_sources([(one, "a"), (other, "b")])
    assert len(found.objects) == 1
    assert str(found.problems[0]) == "b: Pod default/web: defined twice with different content (first in a)"
