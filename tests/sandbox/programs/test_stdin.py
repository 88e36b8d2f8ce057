"""The standard input of containers is bounded."""

from __future__ import annotations

import pytest

from mooring.sandbox.programs.stdin import MOST, OPEN


@pytest.mark.parametrize("text", ["", "x" * 10_000])
def test_input_that_is_too_much_waits_and_so_does_its_end(text: str) -> None:
    stdin = OPEN
    for second in range(3000):
        stdin = stdin.add(second, text)
    assert sum(len(text) for _, text in stdin.chunks) <= MOST
    assert len(stdin.chunks) < 3000
    assert stdin.add(3000, text) is stdin
    assert stdin.close(3000).ends_at is None
