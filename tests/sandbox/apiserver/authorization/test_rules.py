"""What rules allow, and which of them cover others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.sandbox.apiserver.authorization.rules import Attributes, Rule

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
        Attributes,
        st.sampled_from(["get", "list", "watch"]),
        st.sampled_from(["", "apps", "batch"]),
        st.sampled_from(["pods", "pods/log", "jobs", "jobs/log"]),
        name=st.sampled_from(["", "x", "y", "z"]),
    ),
    st.builds(Attributes, st.sampled_from(["get", "list"]), path=st.sampled_from(["/a", "/a/b", "/b"])),
)


def cells(rule: Rule) -> list[Rule]:
    return [cell for half in rule.halves() for cell in half.cells()]


def lacking(rule: Rule, held: Rule) -> list[Rule]:
    return [cell for half in rule.halves() for piece in half.minus(held) for cell in piece.cells()]


@given(RULES, ASKED)
def test_a_rule_allows_what_one_of_its_cells_does(rule: Rule, asked: Attributes) -> None:
    assert rule.allows(asked) == any(cell.allows(asked) for cell in cells(rule))


@given(RULES, RULES, ASKED)
def test_what_a_rule_allows_is_held_or_lacking(held: Rule, rule: Rule, asked: Attributes) -> None:
    left = any(cell.allows(asked) for cell in lacking(rule, held))
    if rule.allows(asked):
        assert left or held.allows(asked)
    else:
        assert not left


@given(RULES)
def test_a_rule_lacks_nothing_of_itself(rule: Rule) -> None:
    assert lacking(rule, rule) == []


def test_subtracting_rules_does_not_expand_them() -> None:
    names = [f"n{number}" for number in range(2000)]
    granted = Rule(names, names, names, names)
    held = Rule(names[:-1], names[:-1], names[:-1], names[:-1])
    pieces = list(granted.minus(held))
    assert [(len(p.verbs), len(p.api_groups), len(p.resources), len(p.resource_names)) for p in pieces] == [
        (1, 2000, 2000, 2000),
        (1999, 1, 2000, 2000),
        (1999, 1999, 1, 2000),
        (1999, 1999, 1999, 1),
    ]


@pytest.mark.parametrize(
    ("rule", "asked", "allowed"),
    [
        (Rule(["get"], [""], ["pods"]), Attributes("get", "", "pods/log"), False),
        (Rule(["get"], [""], ["*"]), Attributes("get", "", "pods/log"), True),
        (Rule(["get"], [""], ["*/log"]), Attributes("get", "", "pods/log"), True),
        (Rule(["get"], [""], ["*/log"]), Attributes("get", "", "pods"), False),
        (Rule(["get"], [""], ["pods"], ["x"]), Attributes("get", "", "pods"), False),
        (Rule(["get"], ["*"], ["pods"], ["x"]), Attributes("get", "apps", "pods", name="x"), True),
        (Rule(["get"], non_resource_urls=["/a/*"]), Attributes("get", path="/a/b/c"), True),
        (Rule(["get"], non_resource_urls=["/a"]), Attributes("get", path="/a/b"), False),
    ],
)
def test_some_that_are_easily_mixed_up(rule: Rule, asked: Attributes, allowed: bool) -> None:
    assert rule.allows(asked) is allowed
