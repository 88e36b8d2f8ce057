"""The index of a role's rules finds what looking at each of them does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.sandbox.apiserver.authorization.rules import Attributes, Rule, Rules

VERBS, GROUPS = st.sampled_from(["get", "list", "*"]), st.sampled_from(["", "apps", "*"])
RESOURCES = st.sampled_from(["pods", "pods/log", "*/log", "*", "nodes"])
PATHS = st.sampled_from(["/healthz", "/api/*", "*"])


def some(values: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(values, max_size=2)


RULES = st.builds(Rule, some(VERBS), some(GROUPS), some(RESOURCES), some(st.sampled_from("ab")), some(PATHS))
ASKED = st.builds(
    Attributes,
    VERBS,
    GROUPS,
    st.sampled_from(["pods", "pods/log", "nodes/log", "x"]),
    name=st.sampled_from("ab"),
) | st.builds(Attributes, VERBS, path=st.sampled_from(["/healthz", "/api/v1"]))


@given(st.lists(RULES, max_size=4), ASKED)
def test_the_index_agrees_with_the_rules(rules: list[Rule], asked: Attributes) -> None:
    assert Rules(rules).allow(asked) == any(rule.allows(asked) for rule in rules)
