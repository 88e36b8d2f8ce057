"""Hypothesis strategies for clusters: nodes, and pods of few templates.

Everything is drawn from small sets of values, so that in a small cluster things meet: selectors match,
ports collide, claims are shared. `HYPOTHESIS_PROFILE=long` multiplies the number of examples.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.state.objects import HOST, ZONE

DISK = "disk"
GPU = "example.com/gpu"
LATE = "example.com/late"  # a resource that few nodes and pods have, so that its column appears late
DRIVER = "csi.example.com"
NODE_NAMES = [f"n{i}" for i in range(6)]
NAMESPACES = ["default", "other"]
CLAIMS = ["c0", "c1", "c2"]
VOLUMES = ["v0", "v1", "v2"]
IMAGES = {"app:1": 600 << 20, "base:latest": 300 << 20}

_PROFILES = {"long": 200.0, "thorough": 10.0, "repeated": 0.3}
_FACTOR = _PROFILES.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 1.0)


def examples(count: int) -> settings:
    """So many examples in a usual run, many more in a long one."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(
        max_examples=math.ceil(count * _FACTOR), deadline=None, suppress_health_check=slow, print_blob=True
    )


def sometimes(strategy: st.SearchStrategy[Any], otherwise: Any = None) -> st.SearchStrategy[Any]:
    return st.one_of(st.just(otherwise), strategy)


# Strategies are made once: making and validating one takes longer than drawing from it.
up_to = cache(lambda most: st.integers(0, most))
among = cache(lambda *values: st.sampled_from(values))


def some_of(draw: st.DrawFn, features: Mapping[str, st.SearchStrategy[Any]], most: int) -> dict[str, Any]:
    """A few of many features: with all at once, nothing would ever fit anywhere."""
    names = list(features)
    chosen = {names[draw(up_to(len(names) - 1))] for _ in range(draw(up_to(most)))}
    return {name: draw(features[name]) for name in sorted(chosen)}


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


# ---- nodes

_TAINTS = [
    {"key": "dedicated", "value": "x", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "y", "effect": "PreferNoSchedule"},
    {"key": "busy", "effect": "PreferNoSchedule"},
    {"key": "ill", "effect": "NoExecute"},
]
taints = st.lists(st.sampled_from(_TAINTS), max_size=2, unique_by=str)
_amounts = {
    "cpu": st.sampled_from(["4", "1500m", "8"]),
    "memory": st.sampled_from(["4Gi", "1Gi"]),
    "pods": st.sampled_from(["6", "3", "1"]),
    GPU: st.sampled_from(["4", "0"]),
    LATE: st.just("1"),
    "ephemeral-storage": st.just("1Gi"),
}
_labels = {
    HOST: st.sampled_from([None, "shared"]),
    ZONE: st.sampled_from(["b", "b", "b", "c", "", None]),
    DISK: st.sampled_from(["ssd", "hdd"]),
    "rank": st.sampled_from(["1", "5"]),
}
_oddities: dict[str, st.SearchStrategy[Any]] = {
    "taints": taints,
    "unschedulable": st.booleans(),
    "images": st.sets(st.sampled_from(sorted(IMAGES))).map(lambda names: {n: IMAGES[n] for n in names}),
    "features": st.just(["UserNamespacesHostNetworkSupport"]),
    "annotations": st.just({"note": "x"}),
}


@st.composite
def nodes(draw: st.DrawFn, alike: bool = False) -> dict[str, Any]:
    """What `tests.state.objects.node` takes: plain data reads better in a failing example.

    Those that are alike differ in nothing but labels.
    """
    name = draw(among(*NODE_NAMES))
    plain = {"cpu": "3", "memory": "8Gi", "pods": "110", GPU: "2"}
    labels = {HOST: name, ZONE: "a", **some_of(draw, _labels, 2)}
    if alike:
        return {"name": name, "allocatable": plain, "labels": without_none(labels)}
    return {
        "name": name,
        "allocatable": {**plain, **some_of(draw, _amounts, 2)},
        "labels": without_none(labels),
        **some_of(draw, _oddities, 1),
    }


# ---- pods

labels = st.fixed_dictionaries({"app": st.sampled_from("aabc")}, optional={"tier": st.sampled_from("xy")})
selectors = st.sampled_from(
    [
        {"matchLabels": {"app": "a"}},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]},
        {"matchLabels": {"app": "b"}},
        {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]},
        {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
        {},
        None,
    ]
)
keys = st.sampled_from([ZONE, HOST, DISK])
requests = st.one_of(
    st.fixed_dictionaries(
        {"cpu": st.sampled_from(["1", "500m", "1500m", "2", "0"])},
        optional={"memory": st.sampled_from(["512Mi", "1Gi", "0", "6Gi"])},
    ),
    st.sampled_from(
        [
            {},
            {"memory": "1Gi"},
            {GPU: "1"},
            {GPU: "2", "cpu": "1"},
            {LATE: "1"},
            {"ephemeral-storage": "600Mi"},
        ]
    ),
)
light_requests = st.sampled_from([{}, {"cpu": "100m"}, {"cpu": "100m", "memory": "64Mi"}])
tolerations = st.lists(
    st.sampled_from(
        [
            {"key": "dedicated", "operator": "Exists"},
            {"key": "dedicated", "value": "x", "effect": "NoSchedule"},
            {"key": "busy", "operator": "Exists", "effect": "PreferNoSchedule"},
            {"operator": "Exists"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
        ]
    ),
    min_size=1,
    max_size=2,
)
spreads = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(1, 2),
        "topologyKey": keys,
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": selectors,
    },
    optional={
        "minDomains": st.integers(1, 3),
        "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
        "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
        "matchLabelKeys": st.just(["tier"]),
    },
)
_terms = st.fixed_dictionaries(
    {"topologyKey": keys, "labelSelector": selectors},
    optional={
        "namespaces": st.just(["other"]),
        "namespaceSelector": st.sampled_from([{}, {"matchLabels": {"team": "x"}}]),
    },
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_inter_pod = st.fixed_dictionaries(
    {},
    optional={
        _REQUIRED: st.lists(_terms, min_size=1, max_size=2),
        _PREFERRED: st.lists(
            st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": _terms}),
            min_size=1,
            max_size=2,
        ),
    },
)
_node_terms = st.sampled_from(
    [
        {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a", "b"]}]},
        {"matchExpressions": [{"key": DISK, "operator": "NotIn", "values": ["hdd"]}]},
        {"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["2"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]},
    ]
)
_node_affinity = st.fixed_dictionaries(
    {},
    optional={
        _REQUIRED: st.fixed_dictionaries(
            {"nodeSelectorTerms": st.lists(_node_terms, min_size=1, max_size=2)}
        ),
        _PREFERRED: st.lists(
            st.fixed_dictionaries({"weight": st.integers(1, 10), "preference": _node_terms}), max_size=2
        ),
    },
)
affinities = st.fixed_dictionaries(
    {}, optional={"nodeAffinity": _node_affinity, "podAffinity": _inter_pod, "podAntiAffinity": _inter_pod}
)
_SOURCES: list[dict[str, Any]] = [
    *({"persistentVolumeClaim": {"claimName": claim}} for claim in CLAIMS + CLAIMS),
    {"gcePersistentDisk": {"pdName": "pd"}},
    {"gcePersistentDisk": {"pdName": "pd", "readOnly": True}},
    {"ephemeral": {"volumeClaimTemplate": {}}},
    {"emptyDir": {}},
    {"image": {"reference": "base"}},
]
volumes = st.lists(st.sampled_from(_SOURCES), min_size=1, max_size=2).map(
    lambda drawn: [{"name": f"vol{i}", **source} for i, source in enumerate(drawn)]
)
ports = st.sampled_from(
    [
        [{"hostPort": 80}],
        [{"hostPort": 80, "hostIP": "10.0.0.1"}],
        [{"hostPort": 80, "protocol": "UDP"}, {"hostPort": 81}],
    ]
)
owners = st.sampled_from(
    [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r0", "uid": "r0", "controller": True},
        {"apiVersion": "v1", "kind": "ReplicationController", "name": "r0", "uid": "r1", "controller": True},
    ]
)
priorities = st.sampled_from([None, 0, 10, 100])

FEATURES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "spread": st.lists(spreads, min_size=1, max_size=2).map(lambda them: {"topologySpreadConstraints": them}),
    "near": _inter_pod.map(lambda terms: {"affinity": {"podAffinity": terms}}),
    "apart": _inter_pod.map(lambda terms: {"affinity": {"podAntiAffinity": terms}}),
    "affinity": affinities.map(lambda affinity: {"affinity": affinity}),
    "nodes": st.sampled_from([{ZONE: "a"}, {DISK: "ssd"}]).map(lambda labels: {"nodeSelector": labels}),
    "volumes": volumes.map(lambda them: {"volumes": them}),
    "ports": ports.map(lambda them: {"container": {"ports": them}}),
    "image": st.sampled_from(["app:1", "base"]).map(lambda image: {"container": {"image": image}}),
    "owner": owners.map(lambda owner: {"metadata": {"ownerReferences": [owner]}}),
    "tolerant": tolerations.map(lambda them: {"tolerations": them}),
    "patient": st.just({"preemptionPolicy": "Never"}),
    "host": st.just({"hostNetwork": True, "hostUsers": False}),
    "init": st.just({"initContainers": [{"resources": {"requests": {"cpu": "2"}}}]}),
    "overhead": st.just({"overhead": {"cpu": "250m"}}),
    "gate": st.just({"schedulingGates": [{"name": "gate"}]}),
    "second": st.just({"schedulerName": "second"}),  # another profile, or another scheduler
}


@st.composite
def templates(
    draw: st.DrawFn, always: Sequence[str] = (), others: int = 3, light: bool = False
) -> dict[str, Any]:
    """What `tests.state.objects.pod` takes besides a name: the common part of a workload's pods.

    It has one of the features in `always`, if there are any, and perhaps a few others. Light ones ask for
    little, so that nodes are not refused for being full before anything else is looked at.
    """
    template = {
        "requests": draw(light_requests if light else requests),
        "labels": draw(labels) if draw(up_to(4)) else {},
        "namespace": draw(among("default", "default", "default", "other")),
        "priority": draw(priorities),
    }
    for fields in some_of(draw, FEATURES, others).values():
        template |= fields
    if always:
        template |= draw(FEATURES[always[draw(up_to(len(always) - 1))]])
    return without_none(template)
