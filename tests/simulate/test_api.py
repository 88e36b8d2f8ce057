"""Simulations from Python."""

from __future__ import annotations

from typing import cast

from mooring.api.meta import KubeObject
from mooring.simulate import Policy, Simulation, compare, trace
from mooring.simulate.arrivals import Arrivals
from tests.simulate.runs import EXAMPLES, arrivals_of, nodes, template


def test_policies_are_compared_over_the_same_arrivals() -> None:
    one = template()
    coming = arrivals_of(*[(float(i), one, 4.0) for i in range(8)])
    packed = str(EXAMPLES / "simulate" / "packed.yaml")
    simulation = Simulation(nodes(2, "2"), coming, seeds=(1, 2))
    runs = simulation.run({"default": None, "packed": packed, "first": Policy("", ties="first")}, workers=2)
    assert [(each.policy, each.seed) for each in runs["packed"]] == [("packed", 1), ("packed", 2)]
    summary = runs.summary()
    assert summary["default"]["finished"].mean == 8
    found = compare(runs["default"][0], runs["packed"][0])
    assert found.pods == 8
    assert found.divergence is not None
    assert compare(runs["first"][0], runs["first"][1]).divergence is None, "without ties seeds are alike"


def test_a_trace_is_a_workload() -> None:
    folder = EXAMPLES / "fgd" / "synthetic"
    cluster = cast("list[KubeObject]", trace("openb-nodes", folder / "nodes.csv"))
    workload = cast(Arrivals, trace("openb-pods", folder / "pods.csv"))
    (run,) = Simulation(cluster, workload, until=86400).run({"default": None})["default"]
    assert run.end == 86400
    assert len(run.pods) > 100
