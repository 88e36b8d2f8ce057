"""Numbers of things are singular for one."""

from __future__ import annotations

import pytest

from mooring.api.counts import count


@pytest.mark.parametrize(
    ("number", "noun", "plural", "text"),
    [
        (0, "pod", "", "0 pods"),
        (1, "pod", "", "1 pod"),
        (2, "pod", "", "2 pods"),
        (1, "policy", "policies", "1 policy"),
        (3, "policy", "policies", "3 policies"),
    ],
)
def test_count(number: int, noun: str, plural: str, text: str) -> None:
    assert count(number, noun, plural) == text
