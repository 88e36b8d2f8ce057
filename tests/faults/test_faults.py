"""A short fault simulation, and the seeds that once found a bug."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.faults.runs import run_seed
from tests.faults.shrink import shrink


@pytest.mark.parametrize("seed", [1, 9])
def test_the_invariants_hold(seed: int) -> None:
    assert run_seed(seed, 400).violations == []


def test_a_seed_gives_the_same_history_byte_for_byte() -> None:
    """Also in another process, which hashes strings in another way."""
    command = "from tests.faults.runs import run_seed; print(run_seed(9, 200).digest)"
    env = {**os.environ, "PYTHONHASHSEED": "1"}
    other = subprocess.run(
        [sys.executable, "-c", command], env=env, capture_output=True, text=True, check=True
    )
    assert run_seed(9, 200).digest == other.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "bug"),
    [
        (8, "lists on a full disk had versions that were given to other writes after a restart"),
        (9, "bindings took effect after a lost lease was released"),
        (72, "a new leader over-committed nodes, since its watch was behind"),
        (100, "a clock set back kept pods in backoff"),
        (270, "a failure was written after the binding of a pod that was also marked as a victim"),
        (303, "a claim whose allocation was withdrawn counted as reserved while the watch was behind"),
    ],
)
def test_fixed_bugs_stay_fixed(seed: int, bug: str) -> None:
    assert run_seed(seed, 1000).violations == [], bug


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_invariants_hold_with_the_core_in_its_thread(seed: int) -> None:
    assert run_seed(seed, 400, threads=True).violations == []


def test_the_fault_list_is_shrunk_to_what_matters() -> None:
    assert shrink(range(40), lambda faults: {3, 17} <= set(faults)) == [3, 17]


def test_gangs_are_whole_whenever_nothing_happens() -> None:
    result = run_seed(4, 400, gangs=True)
    assert result.violations == []
    assert result.quiet_points


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_gangs_survive_faults(seed: int) -> None:
    assert run_seed(seed, 500, gangs=True).violations == []
