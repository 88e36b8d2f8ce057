"""The arithmetic of quotas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.quantity import parse
from mooring.api.quotas import ResourceQuota, ResourceQuotaSpec
from mooring.sandbox.quota.amounts import Sum, beyond, equal, exceeding, format_amounts, only, plus
from mooring.sandbox.quota.quota_kind import Objects
from tests.calls import count_calls

QUANTITIES = st.builds(
    "{}{}".format, st.integers(0, 5000), st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi"])
)
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "requests.storage"]), QUANTITIES)


@given(AMOUNTS, AMOUNTS)
def test_what_is_added_is_all_there_and_what_is_beyond_is_the_rest(
    some: dict[str, str], more: dict[str, str]
) -> None:
    both = plus(some, more)
    assert both.keys() == some.keys() | more.keys()
    for name, quantity in both.items():
        assert parse(quantity) == parse(some.get(name, "0")) + parse(more.get(name, "0"))
    assert equal(both, plus(more, some))
    rest = beyond(both, some)
    assert equal(rest, plus(dict.fromkeys(both, "0"), more))
    assert set(exceeding(both, some)) == {name for name in some if parse(more.get(name, "0"))}


@given(st.lists(AMOUNTS))
def test_a_sum_is_of_the_resources_it_is_about(each: list[dict[str, str]]) -> None:
    total = Sum(["cpu", "pods"])
    for some in each:
        total.add(some)
    found = total.texts()
    assert found.keys() == {"cpu", "pods"}
    for name in found:
        assert parse(found[name]) == sum(parse(some.get(name, "0")) for some in each)


@pytest.mark.parametrize(
    ("some", "more", "written"),
    [
        ("0", "512Mi", "512Mi"),
        ("64Mi", "100M", "167108864"),
        ("100M", "64Mi", "167108864"),
        ("1Gi", "1Gi", "2Gi"),
        ("500m", "500m", "1"),
        ("5G", "0", "5G"),
        ("1Ki", "1", "1025"),
    ],
)
def test_a_sum_is_written_like_what_it_began_with(some: str, more: str, written: str) -> None:
    assert plus({"x": some}, {"x": more}) == {"x": written}


def test_amounts_are_formatted() -> None:
    assert (
        format_amounts(only({"pods": "1", "cpu": "2", "memory": "3"}, ["pods", "cpu", "none"]))
        == "cpu=2,pods=1"
    )


NAMES = [f"requests.example.com/r{number}" for number in range(5000)]


def test_objects_cost_as_much_as_they_use_however_long_a_quota_is() -> None:
    total = Sum(NAMES)
    assert count_calls(lambda: total.add({NAMES[0]: "1", "cpu": "1"})) < 20
    assert count_calls(lambda: Objects("deployments.apps").restricted(NAMES)) < 20


def test_repeated_scopes_count_once() -> None:
    spec = ResourceQuotaSpec(scopes=["BestEffort"] * 1000)
    assert len(ResourceQuota(spec=spec).scopes) == 1
