"""What rules allow, and which of them cover others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.sandbox.apiserver.authorization.rules import Asked, Rule

VERBS, GROUPS = st.sampled_from(["get", "list", "*"]), st.sampled_from(["", "apps", "*"])
RESOURCES = st.sampled_from(["pods", "pods/log", "jobs", "*/log", "*"])
PATHS = st.sampled_from(["/a", "/a/b", "/a/*", "/*", "*"])


def some(values: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(values, min_size=1, max_size=2)


RULES = st.one_of(
    st.builds(Rule, some(VERBS), some(GROUPS), some(RESOURCES), st.lists(st.sampled_from("xy"), max_size=2)),
    st.builds(lambda verbs, paths: Rule(verbs, non_resource_urls=paths), some(VERBS), some(PATHS)),
)
ASKED = st.one_of(
    st.builds(
        Asked,
        st.sampled_from(["get", "list", "watch"]),
        st.sampled_from(["", "apps", "batch"]),
        st.sampled_from(["pods", "pods/log", "jobs", "jobs/log"]),
        name=st.sampled_from(["", "x", "y", "z"]),
    ),
    st.builds(Asked, st.sampled_from(["get", "list"]), path=st.sampled_from(["/a", "/a/b", "/b"])),
)


@given(RULES, ASKED)
def test_a_rule_allows_what_one_of_its_parts_does(rule: Rule, asked: Asked) -> None:
    assert rule.allows(asked) == any(part.allows(asked) for part in rule.parts())


@given(RULES, RULES, ASKED)
def test_who_holds_what_covers_a_rule_may_do_all_that_it_allows(held: Rule, rule: Rule, asked: Asked) -> None:
    if rule.allows(asked) and all(held.covers(part) for part in rule.parts()):
        assert held.allows(asked)


@given(RULES)
def test_a_rule_covers_itself(rule: Rule) -> None:
    assert all(any(rule.covers(one) for one in [part]) for part in rule.parts())


@pytest.mark.parametrize(
    ("rule", "asked", "allowed"),
    [
        (Rule(["get"], [""], ["pods"]), Asked("get", "", "pods/log"), False),
        (Rule(["get"], [""], ["*"]), Asked("get", "", "pods/log"), True),
        (Rule(["get"], [""], ["*/log"]), Asked("get", "", "pods/log"), True),
        (Rule(["get"], [""], ["*/log"]), Asked("get", "", "pods"), False),
        (Rule(["get"], [""], ["pods"], ["x"]), Asked("get", "", "pods"), False),
        (Rule(["get"], ["*"], ["pods"], ["x"]), Asked("get", "apps", "pods", name="x"), True),
        (Rule(["get"], non_resource_urls=["/a/*"]), Asked("get", path="/a/b/c"), True),
        (Rule(["get"], non_resource_urls=["/a"]), Asked("get", path="/a/b"), False),
    ],
)
def test_some_that_are_easily_mixed_up(rule: Rule, asked: Asked, allowed: bool) -> None:
    assert rule.allows(asked) is allowed
