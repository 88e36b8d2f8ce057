"""Selectors, against an evaluator that follows the words of the API reference one by one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.meta import LabelSelector, LabelSelectorRequirement
from mooring.api.objects import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from mooring.api.selectors import (
    EVERYTHING,
    NOTHING,
    Requirement,
    SelectorError,
    compile_node_term,
    compile_selector,
    from_map,
    from_requirements,
    is_label_value,
    is_qualified_name,
    matches,
    node_selector_matches,
    node_term_matches,
    parse_int64,
    parse_problem,
    requirement,
)
from tests.calls import count_calls

keys = st.sampled_from(["app", "tier", "example.com/zone"])
values = st.sampled_from(["a", "b", "", "10", "9"])
labels = st.dictionaries(keys, values)
listed = st.lists(values, min_size=1, max_size=3)
expressions = st.one_of(
    st.builds(LabelSelectorRequirement, key=keys, operator=st.sampled_from(["In", "NotIn"]), values=listed),
    st.builds(LabelSelectorRequirement, key=keys, operator=st.sampled_from(["Exists", "DoesNotExist"])),
)
label_selectors = st.builds(
    LabelSelector,
    match_labels=st.dictionaries(keys, values),
    match_expressions=st.lists(expressions, max_size=3),
)


def naive(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    answers = [labels.get(key) == value for key, value in selector.match_labels.items()]
    for each in selector.match_expressions:
        present = each.key in labels
        answers.append(
            {
                "In": present and labels.get(each.key) in each.values,
                "NotIn": not present or labels.get(each.key) not in each.values,
                "Exists": present,
                "DoesNotExist": not present,
            }[each.operator]
        )
    return all(answers)


@given(label_selectors, labels)
def test_a_selector_means_what_it_says(selector: LabelSelector, labels: dict[str, str]) -> None:
    assert compile_selector(selector).matches(labels) == matches(selector, labels) == naive(selector, labels)


@given(label_selectors, label_selectors, labels)
def test_conjoined_selectors_match_what_both_match(
    one: LabelSelector, other: LabelSelector, labels: dict[str, str]
) -> None:
    both = compile_selector(one).conjoin(compile_selector(other))
    assert both.matches(labels) == (naive(one, labels) and naive(other, labels))


@given(label_selectors)
def test_equal_content_is_one_object(selector: LabelSelector) -> None:
    compiled = compile_selector(selector)
    turned = LabelSelector(
        match_labels=dict(reversed(selector.match_labels.items())),
        match_expressions=selector.match_expressions[::-1] * 2,
    )
    assert compile_selector(turned) is compiled
    assert pickle.loads(pickle.dumps(compiled)) is compiled
    assert copy.deepcopy(compiled) is compiled
    assert compiled.conjoin(compiled) is compiled


def test_none_matches_nothing_and_empty_everything() -> None:
    assert compile_selector(None) is NOTHING
    assert NOTHING.nothing
    assert not NOTHING.empty
    assert not NOTHING.matches({})
    assert compile_selector(LabelSelector()) is from_map({}) is EVERYTHING
    assert EVERYTHING.empty
    assert EVERYTHING.matches({"any": "thing"})
    assert EVERYTHING.conjoin(NOTHING) is NOTHING


def test_a_selector_prints_as_kubectl_does() -> None:
    selector = LabelSelector(
        match_labels={"app": "web"},
        match_expressions=[
            LabelSelectorRequirement(key="tier", operator="In", values=["b", "a"]),
            LabelSelectorRequirement(key="x", operator="NotIn", values=["y"]),
            LabelSelectorRequirement(key="z", operator="DoesNotExist"),
        ],
    )
    assert str(compile_selector(selector)) == "app=web,tier in (a,b),x notin (y),!z"


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", [], "at least one value for operator In"),
        ("Exists", ["a"], "no values for operator Exists"),
        ("Gt", ["1"], "one of the operators In, NotIn, Exists, DoesNotExist"),
        ("In", ["not a label"], "the value of a label"),
    ],
)
def test_bad_label_selectors_are_refused(operator: str, values: list[str], expected: str) -> None:
    item = LabelSelectorRequirement(key="app", operator=operator, values=values)
    with pytest.raises(SelectorError, match=expected):
        compile_selector(LabelSelector(match_expressions=[item]))


# ---- node selectors -----------------------------------------------------------------------------


def expression(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=list(values))


@pytest.mark.parametrize(
    ("operator", "wanted", "found", "expected"),
    [
        ("Gt", "5", "6", True), ("Gt", "5", "5", False), ("Lt", "5", "-6", True), ("Lt", "5", "5", False),
        ("Gt", "5", "six", False), ("Gt", "5", None, False), ("Lt", "5", None, False),
        ("Gt", "5", "9223372036854775807", True), ("Gt", "5", "9223372036854775808", False),
        ("Gt", "5", "+6", True), ("Gt", "5", "6.0", False), ("Gt", "5", "1_0", False),
        ("Gt", "5", "٦", False),
        ("Gt", "five", "6", False), ("NotIn", "a", None, True), ("NotIn", "a", "b", True),
        ("In", "a", None, False),
    ],
)  # fmt: skip
def test_node_operators(operator: str, wanted: str, found: str | None, expected: bool) -> None:
    term = NodeSelectorTerm(match_expressions=[expression("cores", operator, wanted)])
    labels = {} if found is None else {"cores": found}
    assert node_term_matches(term, labels, "n") is expected


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (expression("metadata.name", "In", "n1"), True),
        (expression("metadata.name", "In", "n2"), False),
        (expression("metadata.name", "NotIn", "n2"), True),
        (expression("metadata.name", "In", "n1", "n2"), False),  # does not parse: exactly one value
        (expression("metadata.name", "Exists"), False),
        (expression("metadata.uid", "In", "n1"), False),
        (expression("metadata.uid", "NotIn", "n1"), True),
    ],
)
def test_fields_know_only_the_name(item: NodeSelectorRequirement, expected: bool) -> None:
    assert node_term_matches(NodeSelectorTerm(match_fields=[item]), {}, "n1") is expected


def test_terms_are_alternatives_and_bad_ones_are_passed_over() -> None:
    bad = NodeSelectorTerm(match_expressions=[expression("a", "NotIn", "no label value")])
    good = NodeSelectorTerm(match_expressions=[expression("a", "Exists")])
    selector = NodeSelector(node_selector_terms=[bad, NodeSelectorTerm(), good])
    assert node_selector_matches(selector, {"a": "1"}, "n")
    assert not node_selector_matches(selector, {}, "n")
    assert not node_selector_matches(NodeSelector(), {"a": "1"}, "n")
    problem = parse_problem(bad)
    assert problem == 'matchExpressions[0]: key "a": found "no label value", expected the value of a label'
    assert parse_problem(good) is None


def test_a_compiled_term_is_data() -> None:
    term = NodeSelectorTerm(
        match_expressions=[expression("b", "Gt", "3"), expression("a", "In", "y", "x", "x")],
        match_fields=[expression("metadata.name", "In", "n1")],
    )
    compiled = compile_node_term(term)
    assert compiled.selector.requirements == (
        Requirement("a", "In", ("x", "y")),
        Requirement("b", "Gt", ("3",)),
    )
    assert compiled.fields == (Requirement("metadata.name", "In", ("n1",)),)


def test_names_and_values() -> None:
    assert is_qualified_name("example.com/app_1.x")
    assert not is_qualified_name("Example.com/app")
    assert not is_qualified_name("a/b/c")
    assert not is_qualified_name("-a")
    assert not is_qualified_name("a" * 64)
    assert is_label_value("")
    assert not is_label_value("a-")
    assert parse_int64("-9223372036854775808") == -(2**63)
    assert parse_int64("") is None


labels_of_objects = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["", "1", "5", "x", "y"]))
conditions = st.builds(
    requirement,
    st.sampled_from("abcde"),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(st.sampled_from(["", "1", "5", "x", "y", "z"]), min_size=1, max_size=3),
) | st.builds(
    requirement,
    st.sampled_from("abcde"),
    st.sampled_from(["Gt", "Lt"]),
    st.sampled_from([["0"], ["3"], ["9"]]),
)


@given(st.lists(conditions, max_size=3), labels_of_objects)
def test_many_requirements_match_like_one_by_one(some: list[Requirement], labels: dict[str, str]) -> None:
    """Beyond a number of requirements, they are looked up by key."""
    padding = requirement("unrelated", "NotIn", [f"v{index}" for index in range(100)])
    expected = all(each.matches(labels) for each in some)
    assert from_requirements(some).matches(labels) is expected
    assert from_requirements([*some, padding]).matches(labels) is expected


def test_long_selectors_are_compiled_once() -> None:
    """Controllers do it for every object."""

    def selector() -> LabelSelector:
        terms = [LabelSelectorRequirement(key=f"k{n}", operator="Exists") for n in range(1000)]
        return LabelSelector(match_expressions=terms)

    first = selector()
    assert compile_selector(first) is compile_selector(selector())
    assert count_calls(lambda: compile_selector(first)) < 20
    assert count_calls(lambda: compile_selector(selector())) < 3000
