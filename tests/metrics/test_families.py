"""Histograms and counters count as prometheus-client's own do."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from prometheus_client import CollectorRegistry
from prometheus_client import Histogram as Reference

from mooring.metrics import catalogue
from mooring.metrics.catalogue import Definition, exponential
from mooring.metrics.families import PENDING, Counters, Histograms

BOUNDS = exponential(0.001, 2, 15)
TIMES = Definition("times", "ALPHA", "Times.", ("who",), BOUNDS)

durations = st.floats(0, 100) | st.sampled_from(BOUNDS)


@given(st.lists(durations, max_size=50), st.lists(durations, max_size=50))
def test_observations_fall_into_the_same_buckets_one_by_one_and_all_at_once(
    single: list[float], together: list[float]
) -> None:
    ours = Histograms(TIMES)
    for value in single:
        ours.of("me").observe(value)
    ours.of("me").observe_all(np.array(together))
    theirs = Reference("times", "Times.", ["who"], buckets=BOUNDS, registry=CollectorRegistry())
    for value in (*single, *together):
        theirs.labels("me").observe(value)
    theirs.labels("me")
    (reference,) = theirs.collect()
    expected = [s.value for s in reference.samples if not s.name.endswith(("_created", "_sum"))]
    told = [s for s in ours.collect().samples if not s.name.endswith("_sum")]
    assert [s.value for s in told] == expected
    (total,) = [s.value for s in ours.collect().samples if s.name.endswith("_sum")]
    assert total == pytest.approx(sum(single) + sum(together))


def test_more_observations_than_are_kept() -> None:
    ours = Histograms(TIMES)
    child = ours.of("me")
    for _ in range(PENDING + 3):
        child.observe(0.0015)
    counts, total = child.read()
    assert counts[1] == sum(counts) == PENDING + 3
    assert total == pytest.approx(0.0015 * (PENDING + 3))


def test_children_are_one_for_each_set_of_labels() -> None:
    ours = Histograms(TIMES)
    assert ours.of("me") is ours.of("me")
    assert ours.of("me") is not ours.of("you")


def test_counters_add_up() -> None:
    counters = Counters(Definition("things_total", "ALPHA", "Things.", ("kind",)))
    counters.add(2, "big")
    counters.add(3, "big")
    counters.add(1, "small")
    assert {s.labels["kind"]: s.value for s in counters.collect().samples} == {"big": 5, "small": 1}


def test_definitions_have_names_of_their_own() -> None:
    names = [each.name for each in vars(catalogue).values() if isinstance(each, Definition)]
    assert len(set(names)) == len(names) > 20
