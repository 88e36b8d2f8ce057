"""make_pod and make_node: what they build is what the manifest that says the same becomes."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.decode import MalformedObject, load_manifests
from mooring.api.meta import LabelSelector, LabelSelectorRequirement
from mooring.api.objects import NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration
from mooring.testing import (
    VirtualClock,
    affinity_term,
    label_selector,
    make_node,
    make_pod,
    node_term,
    spread_constraint,
    taint,
    toleration,
)
from mooring.testing.clock import START


def manifest(text: str) -> Any:
    found = load_manifests(text, "manifest")
    assert not found.problems
    (obj,) = found.objects
    return obj


class TestPod:
    def test_a_bare_pod(self) -> None:
        pod = make_pod()
        assert (pod.key, pod.spec.node_name, pod.status.phase, pod.priority) == (
            "default/pod",
            "",
            "Pending",
            0,
        )
        assert pod.spec.scheduler_name == "default-scheduler"
        assert len(pod.spec.containers) == 1

    def test_the_uid_follows_from_namespace_and_name(self) -> None:
        assert make_pod("a").uid == make_pod("a", labels={"x": "y"}).uid != ""
        assert len({make_pod("a").uid, make_pod("b").uid, make_pod("a", namespace="other").uid}) == 3
        assert make_pod("a", uid="mine").uid == "mine"

    def test_everything_at_once_is_the_manifest_that_says_so(self) -> None:
        built = make_pod(
            "web-1",
            namespace="shop",
            labels={"app": "web"},
            annotations={"note": "x"},
            owner="ReplicaSet/web",
            requests={"cpu": "500m", "memory": "1Gi"},
            limits={"cpu": "1"},
            image="web:2",
            host_ports=[8080],
            claims=["data"],
            node_selector={"disk": "ssd"},
            node_affinity=["zone in (a,b)", "cores>8"],
            preferred_node_affinity={"gpu": 5},
            pod_affinity=[affinity_term("app=db", "zone")],
            preferred_pod_affinity=[(3, affinity_term({"app": "cache"}))],
            pod_anti_affinity=[affinity_term("app=web", namespaces=["shop", "other"])],
            preferred_pod_anti_affinity=[(7, affinity_term("!quiet", "zone"))],
            spread=[spread_constraint("zone", {"app": "web"}, max_skew=2, min_domains=3)],
            tolerations=["dedicated=web:NoSchedule", "spot:NoExecute", "maintenance"],
            priority=100,
            scheduling_gates=["quota"],
            scheduler_name="mine",
            nominated_node="node-7",
        )
        written = manifest(
            """
            apiVersion: v1
            kind: Pod
            metadata:
              name: web-1
              namespace: shop
              labels: {app: web}
              annotations: {note: x}
              creationTimestamp: "2030-01-01T00:00:00Z"
              ownerReferences:
              - {apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: ReplicaSet-web, controller: true}
            spec:
              schedulerName: mine
              priority: 100
              preemptionPolicy: PreemptLowerPriority
              schedulingGates: [{name: quota}]
              containers:
              - name: main
                image: web:2
                ports: [{containerPort: 8080, hostPort: 8080}]
                resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: "1"}}
              volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
              nodeSelector: {disk: ssd}
              tolerations:
              - {key: dedicated, operator: Equal, value: web, effect: NoSchedule}
              - {key: spot, operator: Exists, effect: NoExecute}
              - {key: maintenance, operator: Exists}
              topologySpreadConstraints:
              - maxSkew: 2
                minDomains: 3
                topologyKey: zone
                whenUnsatisfiable: DoNotSchedule
                labelSelector: {matchLabels: {app: web}}
              affinity:
                nodeAffinity:
                  requiredDuringSchedulingIgnoredDuringExecution:
                    nodeSelectorTerms:
                    - matchExpressions: [{key: zone, operator: In, values: [a, b]}]
                    - matchExpressions: [{key: cores, operator: Gt, values: ["8"]}]
                  preferredDuringSchedulingIgnoredDuringExecution:
                  - {weight: 5, preference: {matchExpressions: [{key: gpu, operator: Exists}]}}
                podAffinity:
                  requiredDuringSchedulingIgnoredDuringExecution:
                  - topologyKey: zone
                    labelSelector: {matchExpressions: [{key: app, operator: In, values: [db]}]}
                  preferredDuringSchedulingIgnoredDuringExecution:
                  - weight: 3
                    podAffinityTerm:
                      topologyKey: kubernetes.io/hostname
                      labelSelector: {matchLabels: {app: cache}}
                podAntiAffinity:
                  requiredDuringSchedulingIgnoredDuringExecution:
                  - topologyKey: kubernetes.io/hostname
                    namespaces: [shop, other]
                    labelSelector: {matchExpressions: [{key: app, operator: In, values: [web]}]}
                  preferredDuringSchedulingIgnoredDuringExecution:
                  - weight: 7
                    podAffinityTerm:
                      topologyKey: zone
                      labelSelector: {matchExpressions: [{key: quiet, operator: DoesNotExist}]}
            status: {nominatedNodeName: node-7}
            """
        )
        assert built == written

    def test_limits_are_requests_where_there_are_none(self) -> None:
        resources = make_pod(limits={"cpu": "2"}).spec.containers[0].resources
        assert resources.requests == {"cpu": "2"}

    def test_a_bound_pod_runs(self) -> None:
        pod = make_pod(node_name="a", created=START - 60)
        assert (pod.spec.node_name, pod.status.phase) == ("a", "Running")
        assert pod.status.start_time == "2029-12-31T23:59:00Z"
        assert make_pod(node_name="a", started=START + 5).status.start_time == "2030-01-01T00:00:05Z"

    def test_a_terminating_pod(self) -> None:
        assert make_pod(terminating=True).terminating
        assert not make_pod().terminating

    def test_one_string_is_one_item(self) -> None:
        pod = make_pod(
            tolerations="spot:NoSchedule", claims="data", scheduling_gates="quota", node_affinity="disk=ssd"
        )
        assert [each.key for each in pod.spec.tolerations] == ["spot"]
        assert [each.name for each in pod.spec.volumes] == ["data"]
        assert [each.name for each in pod.spec.scheduling_gates] == ["quota"]

    @pytest.mark.parametrize("owner", ["web", "ReplicaSet/"])
    def test_an_owner_needs_a_kind_and_a_name(self, owner: str) -> None:
        with pytest.raises(ValueError, match=r"expected Kind/name, e\.g\. ReplicaSet/web"):
            make_pod(owner=owner)

    @pytest.mark.parametrize(
        ("arguments", "field"),
        [
            ({"requests": {"cpu": "lots"}}, r"requests\.cpu"),
            ({"tolerations": "key:Sometimes"}, r"tolerations\[0\]\.effect"),
            ({"name": ""}, r"metadata\.name"),
        ],
    )
    def test_nonsense_is_refused(self, arguments: dict[str, Any], field: str) -> None:
        with pytest.raises(MalformedObject, match=field):
            make_pod(**arguments)


class TestNode:
    def test_a_bare_node(self) -> None:
        node = make_node()
        assert node.status.allocatable == {"cpu": "4", "memory": "16Gi", "pods": 110}
        assert node.metadata.labels == {"kubernetes.io/hostname": "node"}
        assert node.uid == make_node().uid != make_node("other").uid

    def test_everything_at_once_is_the_manifest_that_says_so(self) -> None:
        built = make_node(
            "gpu-1",
            cpu="8",
            memory="64Gi",
            pods=50,
            resources={"nvidia.com/gpu": 4},
            labels={"disk": "ssd"},
            annotations={"rack": "7"},
            zone="a",
            region="eu",
            taints=["nvidia.com/gpu=present:NoSchedule", "spot:PreferNoSchedule"],
            unschedulable=True,
            images={"web:2": 1000},
            ready=False,
            declared_features=["Feature"],
        )
        written = manifest(
            """
            apiVersion: v1
            kind: Node
            metadata:
              name: gpu-1
              labels:
                kubernetes.io/hostname: gpu-1
                topology.kubernetes.io/zone: a
                topology.kubernetes.io/region: eu
                disk: ssd
              annotations: {rack: "7"}
            spec:
              unschedulable: true
              taints:
              - {key: nvidia.com/gpu, value: present, effect: NoSchedule}
              - {key: spot, effect: PreferNoSchedule}
            status:
              allocatable: {cpu: "8", memory: 64Gi, pods: 50, nvidia.com/gpu: 4}
              capacity: {cpu: "8", memory: 64Gi, pods: 50, nvidia.com/gpu: 4}
              conditions: [{type: Ready, status: "False"}]
              images: [{names: ["web:2"], sizeBytes: 1000}]
              declaredFeatures: [Feature]
            """
        )
        assert built == written

    def test_allocatable_replaces_all_amounts(self) -> None:
        assert make_node(allocatable={"cpu": "1"}, cpu="9").status.allocatable == {"cpu": "1"}

    def test_labels_can_override_the_hostname(self) -> None:
        labels = make_node("a", labels={"kubernetes.io/hostname": "other"}).metadata.labels
        assert labels == {"kubernetes.io/hostname": "other"}

    @pytest.mark.parametrize(
        ("arguments", "field"),
        [({"cpu": "lots"}, r"\.cpu"), ({"taints": "key:Never"}, r"taints\[0\]\.effect")],
    )
    def test_nonsense_is_refused(self, arguments: dict[str, Any], field: str) -> None:
        with pytest.raises(MalformedObject, match=field):
            make_node(**arguments)


class TestNotation:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("app=web", [("app", "In", ["web"])]),
            ("app==web", [("app", "In", ["web"])]),
            ("app = web", [("app", "In", ["web"])]),
            ("app!=web", [("app", "NotIn", ["web"])]),
            ("app in (web, db)", [("app", "In", ["web", "db"])]),
            ("app notin (web)", [("app", "NotIn", ["web"])]),
            ("app", [("app", "Exists", [])]),
            ("!app", [("app", "DoesNotExist", [])]),
            (
                "a/b.c=1,x in (y,z), !q",
                [("a/b.c", "In", ["1"]), ("x", "In", ["y", "z"]), ("q", "DoesNotExist", [])],
            ),
            ("", []),
        ],
    )
    def test_selectors_as_for_kubectl(self, text: str, expected: list[tuple[str, str, list[str]]]) -> None:
        found = label_selector(text)
        assert found == LabelSelector(
            match_expressions=[
                LabelSelectorRequirement(key=key, operator=operator, values=values)
                for key, operator, values in expected
            ]
        )

    def test_selectors_from_labels_and_selectors(self) -> None:
        assert label_selector({"app": "web"}) == LabelSelector(match_labels={"app": "web"})
        assert label_selector(LabelSelector()) == LabelSelector()

    @pytest.mark.parametrize("text", ["app web", "app in web", "app in (web", "=web", "a=b=c d"])
    def test_what_cannot_be_read_is_named(self, text: str) -> None:
        with pytest.raises(ValueError, match="expected a form such as app=web"):
            label_selector(text)

    def test_node_terms_compare_numbers_too(self) -> None:
        expected = [
            NodeSelectorRequirement(key="cores", operator="Gt", values=["8"]),
            NodeSelectorRequirement(key="disks", operator="Lt", values=["3"]),
        ]
        assert node_term("cores>8,disks<3") == NodeSelectorTerm(match_expressions=expected)
        assert node_term({"disk": "ssd"}) == node_term("disk=ssd")
        assert node_term(NodeSelectorTerm()) == NodeSelectorTerm()

    def test_taints(self) -> None:
        assert taint("a/b=c:NoSchedule") == Taint(key="a/b", value="c", effect="NoSchedule")
        assert taint("a:NoExecute") == Taint(key="a", effect="NoExecute")
        assert taint(Taint(key="a")) == Taint(key="a")
        with pytest.raises(ValueError, match="expected key=value:Effect or key:Effect"):
            taint("a")

    def test_tolerations(self) -> None:
        assert toleration("a=b:NoSchedule") == Toleration(
            key="a", operator="Equal", value="b", effect="NoSchedule"
        )
        assert toleration("a") == Toleration(key="a", operator="Exists")
        assert toleration("") == Toleration(operator="Exists")
        assert toleration(Toleration(key="a")) == Toleration(key="a")


class TestVirtualClock:
    def test_time_passes_when_told(self) -> None:
        clock = VirtualClock(100)
        assert (clock(), clock()) == (100, 100)
        clock.advance(2.5)
        assert clock() == 102.5
        clock.set(200)
        assert clock() == 200

    def test_time_does_not_run_backwards(self) -> None:
        clock = VirtualClock(100)
        with pytest.raises(ValueError, match="cannot be set back to 99"):
            clock.set(99)
        with pytest.raises(ValueError, match="cannot be set back to 99"):
            clock.advance(-1)
        assert clock() == 100
