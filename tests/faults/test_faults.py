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
    ("seed", "steps", "planted"),
    [
        (9, 400, "lost-leases-are-released"),  # a bug once: bindings took effect after the lease was released
        (24, 460, "new-leader-trusts-its-watch"),  # a bug once: a new leader had not seen all bindings
    ],
)
def test_bugs_that_were_fixed_are_found_again(seed: int, steps: int, planted: str) -> None:
    command = (
        "from tests.faults.mutations import MUTATIONS; from tests.faults.runs import run_seed; "
        f"MUTATIONS[{planted!r}](); print(len(run_seed({seed}, {steps}).violations))"
    )
    found = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert int(found.stdout)
    assert run_seed(seed, steps).violations == []


def test_the_fault_list_is_shrunk_to_what_matters() -> None:
    assert shrink(range(40), lambda faults: {3, 17} <= set(faults)) == [3, 17]
