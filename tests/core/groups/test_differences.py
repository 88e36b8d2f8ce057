"""The documented differences from kube-scheduler and scheduler-plugins: each names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "groups.md"


def test_each_difference_names_a_test_of_this_folder() -> None:
    source = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    existing = set(re.findall(r"def (test_\w+)", source))
    tables = PAGE.read_text().partition("## Where Mooring differs from kube-scheduler")[2]
    rows = [line for line in tables.splitlines() if line.startswith("| ") and "`test_" in line]
    assert len(rows) > 15
    for row in rows:
        names = re.findall(r"`(test_\w+)`", row.split("|")[4])
        assert names, row
        assert set(names) <= existing, row
