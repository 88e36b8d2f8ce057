"""The client's own limit on requests."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.client.limiter import TokenBucket
from tests.client import virtual_time
from tests.client.virtual_time import now

times = st.floats(0, 5, allow_nan=False)


def test_a_burst_passes_at_once_and_the_rest_at_the_rate() -> None:
    bucket = TokenBucket(10, 3, clock=lambda: 100.0)
    waits = [bucket.reserve() for _ in range(6)]
    assert waits == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3])


def test_what_was_not_used_is_kept_up_to_the_burst() -> None:
    clock = [0.0]
    bucket = TokenBucket(10, 3, clock=lambda: clock[0])
    for _ in range(3):
        bucket.reserve()
    clock[0] = 60.0
    assert [bucket.reserve() for _ in range(4)] == pytest.approx([0, 0, 0, 0.1])


def test_a_negative_rate_is_no_limit_and_zero_means_client_gos_defaults() -> None:
    assert [TokenBucket(-1, 0, clock=lambda: 0.0).reserve() for _ in range(1000)] == [0.0] * 1000
    bucket = TokenBucket(0, 0, clock=lambda: 0.0)
    assert [bucket.reserve() for _ in range(12)] == pytest.approx([0.0] * 10 + [0.2, 0.4])


@given(st.integers(1, 50), st.integers(1, 20), st.lists(times, max_size=60))
def test_no_stretch_of_time_sees_more_than_burst_and_rate_allow(
    qps: int, burst: int, pauses: list[float]
) -> None:
    clock = [0.0]
    bucket = TokenBucket(qps, burst, clock=lambda: clock[0])
    passed: list[float] = []
    for pause in pauses:
        clock[0] += pause / qps
        passed.append(clock[0] + bucket.reserve())
    assert passed == sorted(passed)  # in order
    for first, start in enumerate(passed):
        for last in range(first, len(passed)):
            assert last - first + 1 <= burst + qps * (passed[last] - start) + 1e-6


def test_waiters_are_let_through_in_order_and_who_gives_up_takes_no_turn() -> None:
    async def main() -> None:
        bucket = TokenBucket(1, 1, clock=now)
        done: list[tuple[int, float]] = []

        async def ask(number: int) -> None:
            await bucket.wait()
            done.append((number, now() - began))

        began = now()
        tasks = [asyncio.ensure_future(ask(number)) for number in range(4)]
        await asyncio.sleep(0.5)
        tasks[3].cancel()
        await asyncio.sleep(0)
        tasks.append(asyncio.ensure_future(ask(4)))
        await asyncio.gather(*tasks, return_exceptions=True)
        assert done == [(0, 0.0), (1, 1.0), (2, 2.0), (4, 3.0)]

    virtual_time.run(main())
