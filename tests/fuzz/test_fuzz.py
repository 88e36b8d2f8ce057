"""Replays every input that once failed, and a few new ones per target. `make fuzz` runs many."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.__main__ import load_targets
from tests.fuzz.running import fuzz, replay

TARGETS = load_targets()
CASES = [(name, path) for name, target in TARGETS.items() for path in target.kept_cases()]


@pytest.mark.parametrize(("name", "path"), CASES, ids=[f"{name}-{path.name}" for name, path in CASES])
def test_an_input_that_once_failed(name: str, path: Path) -> None:
    replay(TARGETS[name], path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_a_few_mutations(name: str) -> None:
    target = TARGETS[name]
    report = fuzz(target, len(target.seeds) + 40, 7)
    assert [finding.story for finding in report.findings] == []
    assert report.outcomes > 1, "every input has the same outcome: the target does not read them"
