"""Node selectors over columns say what they say of one node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.meta import ObjectMeta
from mooring.api.objects import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
)
from mooring.api.selectors import compile_node_term, node_term_matches
from mooring.plugins.matching import match_labels, match_node_selector, match_required, match_term
from mooring.runtime.engine_nodes import EngineNodes
from mooring.state.cluster import ClusterState

VALUES = ["", "a", "b", "-3", "+7", "007", "10", "99999999999999999999"]

label_sets = st.dictionaries(st.sampled_from(["zone", "tier"]), st.sampled_from(VALUES))
expressions = st.builds(
    NodeSelectorRequirement,
    key=st.sampled_from(["zone", "tier", "not a key!"]),
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like"]),
    values=st.lists(st.sampled_from(VALUES), max_size=3),
)
fields = st.builds(
    NodeSelectorRequirement,
    key=st.sampled_from(["metadata.name", "metadata.uid"]),
    operator=st.sampled_from(["In", "NotIn", "Exists"]),
    values=st.lists(st.sampled_from(["n0", "n1", "n9", ""]), min_size=1, max_size=2),
)
terms = st.builds(
    NodeSelectorTerm,
    match_expressions=st.lists(expressions, max_size=3),
    match_fields=st.lists(fields, max_size=2),
)


def table(*labels: dict[str, str]) -> EngineNodes:
    cluster = ClusterState()
    for i, own in enumerate(labels):
        cluster.add_node(Node(metadata=ObjectMeta(name=f"n{i}", labels=own)))
    return cluster.nodes


def one(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=[NodeSelectorRequirement(key=key, operator=operator, values=list(values))]
    )


@given(st.lists(label_sets, min_size=1, max_size=5), terms)
def test_a_term_matches_the_rows_it_matches_one_by_one(
    labels: list[dict[str, str]], term: NodeSelectorTerm
) -> None:
    nodes = table(*labels)
    expected = [node_term_matches(term, own, f"n{i}") for i, own in enumerate(labels)]
    assert match_term(nodes, term).tolist() == expected
    for i, answer in enumerate(expected):  # a view of one row among many values
        assert match_term(nodes.take(slice(i, i + 1)), term).tolist() == [answer]


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (one("zone", "In", "a", "b"), [True, True, False, False]),
        (one("zone", "NotIn", "a"), [False, True, True, True]),  # an absent label is not in any list
        (one("zone", "Exists"), [True, True, True, False]),
        (one("zone", "DoesNotExist"), [False, False, False, True]),
        (one("size", "Gt", "5"), [True, False, False, False]),  # 10 as a number, "x" and absence never
        (one("size", "Lt", "5"), [False, True, False, False]),
        (one("size", "Gt", "five"), [False, False, False, False]),  # does not parse: matches nothing
        (NodeSelectorTerm(), [False, False, False, False]),
    ],
)
def test_operators(term: NodeSelectorTerm, expected: list[bool]) -> None:
    nodes = table({"zone": "a", "size": "10"}, {"zone": "b", "size": "-3"}, {"zone": "c", "size": "x"}, {})
    assert match_term(nodes, term).tolist() == expected


def test_terms_are_alternatives_and_no_terms_match_nothing() -> None:
    nodes = table({"zone": "a"}, {"zone": "b"}, {})
    either = NodeSelector(node_selector_terms=[one("zone", "In", "a"), one("zone", "In", "b")])
    assert match_node_selector(nodes, either).tolist() == [True, True, False]
    assert match_node_selector(nodes, NodeSelector()).tolist() == [False, False, False]
    assert match_node_selector(nodes, None).tolist() == [True, True, True]


def test_a_pod_requires_its_node_selector_and_its_affinity() -> None:
    nodes = table({"zone": "a"}, {"zone": "a", "tier": "x"}, {"tier": "x"})
    required = NodeSelector(node_selector_terms=[one("tier", "Exists")])
    spec = PodSpec(
        node_selector={"zone": "a"}, affinity=Affinity(node_affinity=NodeAffinity(required=required))
    )
    shape = ClusterState().info(Pod(spec=spec)).shape
    assert match_required(nodes, shape).tolist() == [False, True, False]
    assert match_required(nodes, ClusterState().info(Pod()).shape).all()


def test_labels_without_entries_match_every_row() -> None:
    assert match_labels(table({}, {"zone": "a"}), {}).tolist() == [True, True]


def test_a_term_on_a_name_looks_only_at_that_row() -> None:
    fields = [NodeSelectorRequirement(key="metadata.name", operator="In", values=["n1"])]
    term = NodeSelectorTerm(match_fields=fields)
    assert compile_node_term(term).fields
    assert match_term(table({}, {}, {}), term).tolist() == [False, True, False]
