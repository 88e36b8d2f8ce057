"""The published list of Kubernetes' tests follows from its data."""

from __future__ import annotations

from tests.conformance.e2e import read_result
from tests.conformance.verdicts import (
    DATA,
    OTHERS_DATA,
    OTHERS_PAGE,
    PAGE,
    read_verdicts,
    render_others,
    render_page,
)


def test_the_pages_are_up_to_date() -> None:
    hint = "run python -m tests.conformance --write-docs"
    assert PAGE.read_text() == render_page(read_verdicts()), hint
    assert OTHERS_PAGE.read_text() == render_others(read_verdicts(OTHERS_DATA)), hint


def test_no_test_is_in_both_lists() -> None:
    assert not set(read_verdicts().names) & set(read_verdicts(OTHERS_DATA).names)


def test_the_lists_are_sorted() -> None:
    for path in (DATA, OTHERS_DATA):
        verdicts = read_verdicts(path)
        for names in (verdicts.passing, verdicts.unrun):
            assert names == sorted(names)
        for reasons in (verdicts.real, verdicts.failing):
            assert list(reasons) == sorted(reasons, key=lambda name: (reasons[name], name))


def test_results_of_ginkgo() -> None:
    spec = {"State": "passed", "RunTime": 1_500_000_000}
    assert read_result("a", spec)[1:] == (True, 1.5, "passed")
    failed = {"State": "failed", "RunTime": 0, "Failure": {"Message": "\nwhy\nand more"}}
    assert read_result("a", failed)[1:] == (False, 0.0, "why")
    assert not read_result("a", None).passed
