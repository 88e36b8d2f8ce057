"""Extreme counts and capacities of devices: scores of alternatives are what they should be, for the table and
for each row alone."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mooring.api.devices import ResourceClaim
from mooring.plugins.arithmetic import default_normalize
from mooring.runtime.engine_state import EngineState
from mooring.runtime.runners import FilterRunner, ScoreRunner
from tests.plugins.plugin_kit import make_node
from tests.plugins.test_dynamic_resources import _object, claiming, cluster_of, device_class, resource_slice

LARGEST = 2**63 - 1
MAX_SUBREQUESTS = 8
counts = st.sampled_from([1, 2, 3, 32, 2**31, 2**53 + 1, LARGEST])
capacities = st.sampled_from([0, 1, 2**53 + 1, LARGEST - 1, LARGEST])
alternatives = st.lists(st.tuples(counts, capacities), min_size=1, max_size=MAX_SUBREQUESTS)
nodes = st.lists(st.tuples(st.integers(1, 3), capacities), min_size=1, max_size=4)


def subrequest(index: int, count: int, capacity: int) -> dict[str, Any]:
    requests = {"memory": str(capacity)}
    return {
        "name": f"s{index}",
        "deviceClassName": "gpu",
        "count": count,
        "capacity": {"requests": requests},
    }


@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(alternatives, nodes)
def test_alternatives_score_by_their_position(
    choices: list[tuple[int, int]], devices: list[tuple[int, int]]
) -> None:
    listed = [subrequest(i, *choice) for i, choice in enumerate(choices)]
    metadata = {"name": "gpu", "namespace": "default", "uid": "gpu", "resourceVersion": "1"}
    claim = _object(
        "ResourceClaim", metadata, {"devices": {"requests": [{"name": "gpu", "firstAvailable": listed}]}}
    )
    assert isinstance(claim, ResourceClaim)
    cluster = cluster_of(
        *(make_node(f"n{i}") for i in range(len(devices))),
        *(
            resource_slice(f"n{i}", number, capacity={"memory": {"value": str(capacity)}})
            for i, (number, capacity) in enumerate(devices)
        ),
        device_class(),
        claim,
    )
    profile = cluster.scheduler.profiles["default-scheduler"]
    plugin, state, rows = profile.plugins["DynamicResources"], EngineState(), cluster.scheduler.cluster.nodes
    pod = cluster.scheduler.cluster.info(claiming("train"))
    assert plugin.pre_filter(state, pod, rows) is None
    FilterRunner(plugin).run(state, pod, rows)
    runner = ScoreRunner(plugin, 1)
    scores = runner.run(state, pod, rows)
    alone = [int(runner.run(state, pod, rows.take(slice(i, i + 1)))[0]) for i in range(len(rows))]
    assert scores.tolist() == alone == [expected(choices, *have) for have in devices]
    assert all(0 <= score <= 100 for score in default_normalize(scores))


def expected(choices: list[tuple[int, int]], number: int, capacity: int) -> int:
    """The score of the first alternative that a node's devices satisfy; 0 where none is."""
    for i, (count, needed) in enumerate(choices):
        if count <= number and needed <= capacity:
            return MAX_SUBREQUESTS - i
    return 0
