from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.objects import Taint, Toleration
from mooring.api.tolerations import Tolerations, find_untolerated, tolerates

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


KEYS, VALUES = st.sampled_from(["a", "b"]), st.sampled_from(["", "x", "y"])
EFFECTS = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
TAINTS = st.builds(Taint, key=KEYS, value=VALUES, effect=EFFECTS)
TOLERATIONS = st.builds(
    Toleration,
    key=st.just("") | KEYS,
    operator=st.sampled_from(["", "Equal", "Exists", "Gt"]),
    value=VALUES,
    effect=st.just("") | EFFECTS,
    toleration_seconds=st.none() | st.integers(0, 3),
)


@given(TAINTS, st.lists(TOLERATIONS, max_size=40))
def test_the_first_toleration_of_many_is_found(taint: Taint, tolerations: list[Toleration]) -> None:
    expected = next((one for one in tolerations if tolerates(one, taint)), None)
    assert Tolerations(tolerations).find(taint) == expected


def test_many_taints_are_not_compared_with_many_tolerations() -> None:
    """4 * 10^8 comparisons would take minutes."""
    keys = [f"key-{number}" for number in range(20_000)]
    taints = [Taint(key=key, effect="NoExecute") for key in keys]
    tolerations = [Toleration(key=key, operator="Exists") for key in keys[1:]]
    anything = [
        Toleration(operator="Exists", effect="NoSchedule", toleration_seconds=n) for n in range(20_000)
    ]
    assert find_untolerated(taints[1:], tolerations + anything) is None
    assert find_untolerated(taints, tolerations + anything) is taints[0]
