"""Agreement with kube-scheduler on the corpus: every part of every decision."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.corpus import DATA, Category, files, replay_file, replay_scenario, scenarios


@pytest.mark.parametrize("path", list(files([DATA])), ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_decisions_agree(path: Path) -> None:
    category = replay_file(path)
    assert category.total > 50
    assert category.differences == []
    assert category.agree == category.total


def test_a_wrong_answer_is_noticed() -> None:
    """The comparison must not be one that always agrees."""
    row = next(iter(scenarios(DATA / "basic.jsonl.gz")))
    pod = next(p for p in row["expected"]["pods"] if p["result"] == "scheduled")
    pod["total"][0] += 1
    pod["message"] = "something else"
    category = Category("basic")
    replay_scenario(row, category)
    assert {difference[0] for _, difference in category.differences} == {"total", "message"}
    assert category.agree == category.total - 1


def test_a_wrong_device_is_noticed() -> None:
    row = next(iter(scenarios(DATA / "dra-basic.jsonl.gz")))
    pod = next(p for p in row["expected"]["pods"] if p.get("nodeAllocations"))
    node, claims = next(iter(pod["nodeAllocations"].items()))
    pod["nodeAllocations"][node] = [[*claims[0], "another"], *claims[1:]]
    pod["claims"][0]["finalizers"] = []
    category = Category("dra-basic")
    replay_scenario(row, category)
    assert {difference[0] for _, difference in category.differences} == {"nodeAllocations", "claims"}
