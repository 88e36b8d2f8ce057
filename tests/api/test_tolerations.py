from __future__ import annotations

import pytest

from mooring.api.objects import Taint, Toleration
from mooring.api.tolerations import find_untolerated, tolerates

TAINT = Taint(key="gpu", value="a100", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="gpu", value="a100"), True),
        (Toleration(key="gpu", operator="Equal", value="a100", effect="NoSchedule"), True),
        (Toleration(key="gpu", value="h100"), False),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(value="a100"), True),  # an empty key with Equal compares values alone
        (Toleration(), False),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(key="cpu", operator="Exists"), False),
        (Toleration(key="gpu", operator="Gt", value="1"), False),
        (Toleration(key="gpu", operator="Lt", value="a100"), False),
    ],
)
def test_tolerates(toleration: Toleration, expected: bool) -> None:
    assert tolerates(toleration, TAINT) is expected


def test_comparisons_are_off_even_where_the_numbers_agree() -> None:
    assert not tolerates(
        Toleration(key="k", operator="Gt", value="1"), Taint(key="k", value="2", effect="NoSchedule")
    )


def test_the_first_hard_taint_is_found() -> None:
    soft = Taint(key="soft", effect="PreferNoSchedule")
    last = Taint(key="last", effect="NoExecute")
    tolerations = [Toleration(key="gpu", operator="Exists")]
    assert find_untolerated([soft, TAINT, last], tolerations) == last
    assert find_untolerated([soft, TAINT, last], []) == TAINT
    assert find_untolerated([soft, TAINT], tolerations) is None
    assert find_untolerated([soft, TAINT], tolerations, ("PreferNoSchedule",)) == soft
