"""The event heap: order of events, pods' lives, evictions, lost nodes, conservation."""

from __future__ import annotations

import random
from heapq import heappop, heappush
from math import inf, isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.core.scheduler import Scheduler
from mooring.simulate.agenda import Order
from mooring.simulate.engine import Clock, CoreRun
from mooring.simulate.invariants import InvariantError, check_run
from mooring.simulate.pod_log import Outcome
from mooring.simulate.queueing import erlang_c, simulate_mmk
from mooring.simulate.random_streams import stream
from mooring.simulate.traces.pods import make_node
from tests.simulate.runs import Checked, arrivals_of, nodes, run_core, template


def test_a_pod_runs_for_its_time_and_makes_room() -> None:
    one = template()
    run = run_core(nodes(1), arrivals_of((0, one, 10), (1, one, 5)))
    assert list(run.log.bound) == [0, 10]
    assert list(run.log.ended) == [10, 15]
    assert set(run.log.outcome) == {Outcome.FINISHED}
    check_run(run)


def test_departures_come_before_arrivals_of_the_same_instant() -> None:
    one = template()
    run = run_core(nodes(1), arrivals_of((0, one, 10), (10, one, 5)))
    assert list(run.log.bound) == [0, 10]
    assert list(run.log.attempts) == [1, 1]


def test_a_pod_that_never_fits_stays_pending_and_the_run_ends() -> None:
    run = run_core(nodes(1), arrivals_of((0, template("2"), 10)))
    assert list(run.log.outcome) == [Outcome.PENDING]
    assert run.log.attempts[0] > 1, "it was retried after five minutes"
    assert list(run.log.reasons)[run.log.reason[0]] == "NodeResourcesFit"
    check_run(run)


def test_without_retries_a_pod_has_one_attempt() -> None:
    one = template()
    run = run_core(nodes(1), arrivals_of((0, one, inf), (1, one, 1)), retry=False)
    assert [Outcome(each) for each in run.log.outcome] == [Outcome.RUNNING, Outcome.REJECTED]
    assert run.attempts == 2


def test_an_evicted_pod_with_a_controller_is_replaced_and_starts_over() -> None:
    low, high = template(replaced=True), template(priority=10)
    run = run_core(nodes(1), arrivals_of((0, low, 10), (4, high, 3)))
    outcomes = [Outcome(each) for each in run.log.outcome]
    assert outcomes == [Outcome.EVICTED, Outcome.FINISHED, Outcome.FINISHED]
    assert run.log.names[2] == "pod-0~1"
    assert list(run.log.ended) == [4, 7, 17]
    assert run.log.replaces[2] == 0
    check_run(run)


def test_pods_of_a_lost_node_are_lost_and_the_node_comes_back_empty() -> None:
    one = template(replaced=True)
    clock = Clock()
    scheduler = Scheduler(clock=clock, pick=random.Random(0).randrange)
    (node,) = nodes(1)
    small = make_node("small", {"cpu": "100m"})
    run = CoreRun(scheduler, clock, [node, small], arrivals_of((0, one, 10)), listeners=[Checked()])
    run.at(5, Order.NODE, lambda: run.delete(node))
    run.at(8, Order.NODE, lambda: run.apply(node))
    run.run()
    assert [Outcome(each) for each in run.log.outcome] == [Outcome.LOST, Outcome.FINISHED]
    assert list(run.log.ended) == [5, 18]
    assert run.nodes.names == ["node-0", "small", "node-0"]
    assert run.nodes.removed == [5, inf, inf]
    check_run(run)


def test_attempts_that_take_time_make_pods_wait() -> None:
    one = template()
    run = run_core(nodes(4), arrivals_of(*[(0, one, 100)] * 4), cost=0.5)
    assert sorted(run.log.bound) == [0, 0.5, 1.0, 1.5]


def test_little_is_violated_by_a_wrong_count() -> None:
    run = run_core(nodes(1), arrivals_of((0, template(), 10)))
    run.running_seconds += 1
    with pytest.raises(InvariantError, match="Little's law: running"):
        check_run(run)


pods = st.tuples(
    st.integers(0, 30),
    st.sampled_from(["250m", "1", "3"]),
    st.sampled_from([0, 5]),
    st.integers(0, 20),
    st.booleans(),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(pods, max_size=25), st.integers(1, 3))
def test_every_run_conserves_pods_and_room(drawn: list[tuple[int, str, int, int, bool]], count: int) -> None:
    kinds = {key: template(key[0], key[1], replaced=key[2]) for key in {(p[1], p[2], p[4]) for p in drawn}}
    coming = sorted((float(t), i, (cpu, p, r), float(life)) for i, (t, cpu, p, life, r) in enumerate(drawn))
    run = run_core(nodes(count, "3"), arrivals_of(*[(t, kinds[key], life) for t, _, key, life in coming]))
    check_run(run)
    assert not run.pending, "every pod fits on an empty node"
    ended = np.array(run.log.ended)
    assert not any(isnan(end) for end in ended)


def first_come_first_served(servers: int, load: float, arrivals: int, seed: int) -> float:
    """Return the mean waiting time if `simulate_mmk` served its pods in the order of their arrival."""
    draw = stream(seed, "mmk")
    times = np.cumsum(draw.exponential(1 / (servers * load), arrivals))
    free, total = [0.0] * servers, 0.0
    for time, life in zip(times.tolist(), draw.exponential(1.0, arrivals).tolist(), strict=True):
        start = max(time, heappop(free))
        total += start - time
        heappush(free, start + life)
    return total / arrivals


def test_waiting_in_a_queue_of_k_slots_is_as_the_recursion_says() -> None:
    """M/M/k; `python -m benchmarks.simulate` compares 100,000 arrivals with Erlang's formula."""
    waited, _ = simulate_mmk(servers=4, load=0.8, arrivals=5000, seed=3)
    expected = first_come_first_served(servers=4, load=0.8, arrivals=5000, seed=3)
    assert waited == pytest.approx(expected, rel=0.1)  # the queue has another order


@pytest.mark.slow
@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (4, 0.7)])
def test_waiting_in_a_queue_of_k_slots_is_as_the_theory_says(servers: int, load: float) -> None:
    """Most of the chance in a run is in its arrivals, by which the recursion is off as well."""
    waited, expected = simulate_mmk(servers, load, arrivals=10_000, seed=0)
    chance = first_come_first_served(servers, load, arrivals=10_000, seed=0) - expected
    assert waited - chance == pytest.approx(expected, rel=0.03)


def test_erlang_of_one_server_is_its_load() -> None:
    assert erlang_c(1, 0.7) == pytest.approx(0.7)


def test_no_slot_is_idle_while_a_pod_waits() -> None:
    draw, one = stream(5, "slots"), template()
    times, lives = np.cumsum(draw.exponential(0.3, 300)).tolist(), draw.exponential(1.0, 300).tolist()

    class Busy:
        def settled(self, run: CoreRun) -> None:
            assert not run.pending or run.running == 4

    coming = arrivals_of(*[(time, one, life) for time, life in zip(times, lives, strict=True)])
    run_core(nodes(4), coming, listeners=[Busy()])
