"""Plugins that rely on a filter before them are not asked about nodes that it refused."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from mooring.framework import CacheKey, Plugin, Verdicts, unschedulable
from mooring.testing import Cluster, make_cluster, make_node, make_pod
from tests.framework.kit import probe

NO_RACK = unschedulable("no rack")


def having_rack() -> type[Plugin]:
    def check(state: Any, pod: Any, node: Any) -> Any:
        return None if "rack" in node.labels else NO_RACK

    return probe("HasRack", filter=check)


def rack(node: Any) -> int:
    return int(node.labels["rack"])  # KeyError where there is none


def filter_by_node(state: Any, pod: Any, node: Any) -> Any:
    return unschedulable("far") if rack(node) > 5 else None


def filter_by_table(state: Any, pod: Any, nodes: Any) -> Any:
    far = np.array([rack(node) > 5 for node in nodes])
    return Verdicts(far.astype(np.int32), {1: unschedulable("far")})


def score_by_node(state: Any, pod: Any, node: Any) -> int:
    return 10 - rack(node)


def score_by_table(state: Any, pod: Any, nodes: Any) -> Any:
    return np.array([10 - rack(node) for node in nodes], np.int64)


def normalize(state: Any, pod: Any, scores: Any, nodes: Any) -> Any:
    return scores * 2


def racks(plugin: type[Plugin]) -> Cluster:
    nodes = [
        make_node("near", labels={"rack": "1"}),
        make_node("middle", labels={"rack": "4"}),
        make_node("far", labels={"rack": "9"}),
        make_node("none"),
    ]
    return make_cluster(nodes, plugins=[having_rack(), plugin])


RELYING = [
    {"filter": filter_by_node, "score": score_by_node},
    {"filter_nodes": filter_by_table, "score_nodes": score_by_table},
    {"filter": filter_by_node, "score": score_by_node, "normalize_score": normalize},
]


@pytest.mark.parametrize("cache_key", list(CacheKey))
@pytest.mark.parametrize("methods", RELYING)
def test_a_node_that_was_refused_before_does_not_fail_the_attempt(methods: Any, cache_key: CacheKey) -> None:
    plugin = probe("Relying", **methods)
    plugin.cache_key = cache_key
    cluster = racks(plugin)
    for name in ("first", "second", "third"):
        cluster.apply(make_pod(name, requests={"cpu": "1"}))
        cluster.schedule()
        assert cluster.node_of(name) in ("near", "middle"), cluster.decision(name).message
    cluster.apply(make_node("nearest", labels={"rack": "0"}), make_node("other"))
    cluster.apply(make_pod("fourth", requests={"cpu": "1"}))
    cluster.schedule()
    assert cluster.node_of("fourth") == "nearest"
    refusals = cluster.decision("fourth").refusals
    assert {name: refusals[name].reasons for name in ("none", "other", "far")} == {
        "none": ["no rack"],
        "other": ["no rack"],
        "far": ["far"],
    }


def test_a_node_that_passes_the_filters_before_still_fails_it(caplog: pytest.LogCaptureFixture) -> None:
    plugin = probe("Relying", filter=filter_by_node)
    plugin.cache_key = CacheKey.NODE
    cluster = make_cluster([make_node("near", labels={"rack": "1"}), make_node("none")], plugins=[plugin])
    cluster.apply(make_pod())
    with caplog.at_level(logging.ERROR):
        cluster.schedule()
    assert "KeyError: 'rack'" in cluster.pod("pod").status.conditions[0].message
