"""Reading the corpus, and replaying it category by category."""

from __future__ import annotations

import gzip
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tests.parity.compare import Difference, compare, compare_profile
from tests.parity.groups import GroupReplay, compare_step
from tests.parity.replay import Replay

DATA = Path(__file__).parent / "data"


@dataclass
class Category:
    """How many attempts of one file agree, and where the others differ."""

    name: str
    agree: int = 0
    total: int = 0
    scenarios: int = 0
    differences: list[tuple[str, Difference]] = field(default_factory=list)


def files(directories: list[Path]) -> Iterator[Path]:
    for directory in directories:
        if directory.is_file():
            yield directory
        else:
            yield from sorted(directory.glob("*.jsonl.gz"))


def scenarios(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path) as lines:
        for line in lines:
            yield msgspec.json.decode(line)


def replay_file(path: Path, reuse: bool = True) -> Category:
    category = Category(path.name.removesuffix(".jsonl.gz"))
    for row in scenarios(path):
        replay_scenario(row, category, reuse)
    return category


def replay_steps(row: dict[str, Any], category: Category, reuse: bool) -> None:
    """Replay one scenario of groups; each pod counts once per step, and so does the rest of the step."""
    scenario, expected = row["scenario"], row["expected"]
    category.scenarios += 1
    category.total += sum(1 + len(step.get("pods") or {}) for step in expected["steps"])
    try:
        replay = GroupReplay(scenario, reuse)
        results = replay.run()
    except Exception:
        story = traceback.format_exc().strip().splitlines()
        category.differences.append((scenario["id"], ("replay", "no error", " | ".join(story[-4:]))))
        return
    for i, (wanted, result) in enumerate(zip(expected["steps"], results, strict=True)):
        for what, wrong in compare_step(wanted, result):
            category.agree += not wrong
            where = f"{scenario['id']} step {i} {what}"
            category.differences += [(where, difference) for difference in wrong]


def replay_scenario(row: dict[str, Any], category: Category, reuse: bool = True) -> None:
    """Replay one scenario; each pod counts once, and so do the profiles' plugin lists."""
    scenario, expected = row["scenario"], row["expected"]
    if "steps" in scenario:
        replay_steps(row, category, reuse)
        return
    category.scenarios += 1
    category.total += 1 + len(expected["pods"])
    try:
        replay = Replay(scenario, reuse)
        attempts = replay.run()
    except Exception:
        story = traceback.format_exc().strip().splitlines()
        category.differences.append((scenario["id"], ("replay", "no error", " | ".join(story[-4:]))))
        return
    wrong = []
    for name, profile in expected["profiles"].items():
        wrong += list(compare_profile(profile, replay.scheduler.profiles[name]))
    category.agree += not wrong
    category.differences += [(scenario["id"], difference) for difference in wrong]
    for wanted, attempt in zip(expected["pods"], attempts, strict=True):
        wrong = list(compare(wanted, attempt, scenario.get("summary", False)))
        category.agree += not wrong
        where = f"{scenario['id']} {wanted['pod']}"
        category.differences += [(where, difference) for difference in wrong]
