"""The published list of Kubernetes' tests follows from its data."""

from __future__ import annotations

from tests.conformance.e2e import read_result
from tests.conformance.verdicts import PAGE, read_verdicts, render_page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == render_page(read_verdicts()), "run python -m tests.conformance --write-docs"


def test_results_of_ginkgo() -> None:
    spec = {"State": "passed", "RunTime": 1_500_000_000}
    assert read_result("a", spec)[1:] == (True, 1.5, "passed")
    failed = {"State": "failed", "RunTime": 0, "Failure": {"Message": "\nwhy\nand more"}}
    assert read_result("a", failed)[1:] == (False, 0.0, "why")
    assert not read_result("a", None).passed
