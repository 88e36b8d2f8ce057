"""A small cluster with a bit of everything, for plugins to be asked about.

Nodes differ in size, labels, taints, images and what runs on them; one pending pod stands for each thing
that a pod can ask for. It is the same every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mooring.api.decode import load_manifests
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.testing.clock import START
from mooring.testing.nodes import HOSTNAME, ZONE, make_node
from mooring.testing.pods import affinity_term, make_pod, spread_constraint

_GIB = 1 << 30


def sample_nodes() -> list[Node]:
    """Nodes in three zones and in none: large and small, full and empty, tainted, cordoned, with GPUs."""
    return [
        make_node("a-1", zone="a", labels={"disk": "ssd"}, images={"app:1": _GIB}),
        make_node("a-2", zone="a", cpu="8", memory="32Gi", annotations={"rack": "7"}),
        make_node("a-3", zone="a", cpu="500m", memory="512Mi", labels={"disk": "hdd"}),
        make_node("b-1", zone="b", labels={"disk": "ssd", "cores": "16"}, cpu="16", memory="64Gi"),
        make_node("b-2", zone="b", pods=3, images={"app:1": _GIB, "train:2": 4 * _GIB}),
        make_node("b-3", zone="b", unschedulable=True, taints="node.kubernetes.io/unschedulable:NoSchedule"),
        make_node("c-1", zone="c", resources={"nvidia.com/gpu": 4}, taints="nvidia.com/gpu:NoSchedule"),
        make_node("c-2", zone="c", resources={"nvidia.com/gpu": 2}, labels={"disk": "nvme"}),
        make_node("d-1", taints=["spot=true:PreferNoSchedule"], labels={"cores": "4"}),
        make_node("d-2", cpu="0", memory="0", pods=0),
    ]


_BOUND: Sequence[dict[str, Any]] = (
    {"requests": {"cpu": "250m", "memory": "128Mi"}, "labels": {"app": "web"}, "owner": "ReplicaSet/web"},
    {"requests": {"cpu": "1", "memory": "1Gi"}, "labels": {"app": "db"}, "priority": 100},
    {"labels": {"app": "web", "canary": "yes"}},
    {"requests": {"cpu": "100m"}, "labels": {"app": "proxy"}, "host_ports": [8080], "priority": -5},
    {"requests": {"cpu": "200m", "memory": "2Gi"}, "namespace": "other", "labels": {"app": "web"}},
    {"requests": {"nvidia.com/gpu": 1}, "labels": {"app": "train"}},
    {"labels": {"app": "lonely"}, "pod_anti_affinity": [affinity_term("app=lonely")]},
    {"requests": {"cpu": "1500m", "memory": "3Gi"}, "labels": {"app": "batch"}, "priority": 10},
)


def sample_bound(nodes: Sequence[Node]) -> list[Pod]:
    """Pods on these nodes, from none to four on each; one of them is on its way out."""
    pods: list[Pod] = []
    for i, node in enumerate(nodes):
        for j in range(i % 5):
            kind = _BOUND[(i * 3 + j) % len(_BOUND)]
            number = len(pods)
            pods.append(
                make_pod(
                    f"bound-{number}",
                    node_name=node.name,
                    created=START - 600 + number,
                    terminating=number == 9,
                    **kind,
                )
            )
    return pods


def sample_pending() -> list[Pod]:
    """One pod for each thing that a pod can ask for, beginning with one that asks for nothing."""
    web = {"app": "web"}
    return [
        make_pod("nothing"),
        make_pod("plain", requests={"cpu": "500m", "memory": "256Mi"}, labels=web, owner="ReplicaSet/web"),
        make_pod("again", requests={"cpu": "500m", "memory": "256Mi"}, labels=web, owner="ReplicaSet/web"),
        make_pod("annotated", annotations={"team": "blue", "delay": "15"}, labels={"app": "job"}),
        make_pod("large", requests={"cpu": "6", "memory": "20Gi"}, limits={"cpu": "8"}),
        make_pod("huge", requests={"cpu": "500"}),
        make_pod("gpu", requests={"nvidia.com/gpu": 2}, tolerations="nvidia.com/gpu", image="train:2"),
        make_pod("important", requests={"cpu": "3"}, priority=1000),
        make_pod("urgent", requests={"cpu": "3500m"}, node_selector={"disk": "nvme"}, priority=2000),
        make_pod("polite", requests={"cpu": "3"}, priority=1000, preemption_policy="Never"),
        make_pod("tolerant", tolerations=["spot=true:PreferNoSchedule", ""]),
        make_pod("selective", node_selector={"disk": "ssd"}),
        make_pod("choosy", node_affinity=[f"{ZONE} in (a,b),disk!=hdd", "cores>8"]),
        make_pod("inclined", preferred_node_affinity={"disk=ssd": 10, "cores<8": 1}),
        make_pod("near", labels=web, pod_affinity=[affinity_term("app=web", ZONE)]),
        make_pod("far", labels=web, pod_anti_affinity=[affinity_term("app in (web,db)")]),
        make_pod("sociable", preferred_pod_affinity=[(5, affinity_term("app=db", HOSTNAME))]),
        make_pod("shy", preferred_pod_anti_affinity=[(5, affinity_term("app", ZONE))]),
        make_pod("even", labels=web, spread=[spread_constraint(ZONE, web)]),
        make_pod(
            "evenish",
            labels=web,
            spread=[spread_constraint(HOSTNAME, web, when_unsatisfiable="ScheduleAnyway")],
        ),
        make_pod("server", host_ports=[8080]),
        make_pod("stateful", claims="data"),
        make_pod("waiting", claims="late"),
        make_pod("elsewhere", namespace="other", labels=web),
        make_pod("gated", scheduling_gates="wait-for-me"),
        make_pod("promised", nominated_node="a-2", priority=50),
    ]


def sample_objects() -> list[KubeObject]:
    """What else there is: claims and volumes, a service, a replica set, a disruption budget."""
    manifests = load_manifests(_OBJECTS, "sample")
    assert not manifests.problems, manifests.problems
    assert not manifests.ignored, manifests.ignored
    return manifests.objects


_OBJECTS = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: default, labels: {team: blue}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: other}}
- {apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}
- {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}}}
- apiVersion: policy/v1
  kind: PodDisruptionBudget
  metadata: {name: web}
  spec: {selector: {matchLabels: {app: web}}}
  status: {disruptionsAllowed: 1}
- {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: csi.example.com}
- apiVersion: storage.k8s.io/v1
  kind: StorageClass
  metadata: {name: late}
  provisioner: csi.example.com
  volumeBindingMode: WaitForFirstConsumer
- apiVersion: storage.k8s.io/v1
  kind: CSINode
  metadata: {name: a-1}
  spec: {drivers: [{name: csi.example.com, nodeID: a-1, allocatable: {count: 8}}]}
- apiVersion: v1
  kind: PersistentVolume
  metadata: {name: pv-1}
  spec:
    capacity: {storage: 10Gi}
    accessModes: [ReadWriteOnce]
    storageClassName: fast
    claimRef: {kind: PersistentVolumeClaim, namespace: default, name: data}
    csi: {driver: csi.example.com, volumeHandle: one}
    nodeAffinity:
      required:
        nodeSelectorTerms:
        - matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a, b]}]
  status: {phase: Bound}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: data, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
  spec:
    accessModes: [ReadWriteOnce]
    storageClassName: fast
    volumeName: pv-1
    resources: {requests: {storage: 10Gi}}
  status: {phase: Bound}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: late}
  spec:
    accessModes: [ReadWriteOnce]
    storageClassName: late
    resources: {requests: {storage: 1Gi}}
  status: {phase: Pending}
"""
