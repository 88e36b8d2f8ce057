"""Node selectors over columns: which rows of a table match, at the cost of the distinct values.

What a selector says about a label is decided once per distinct value of that label and then spread over
the rows by value id; a row without the label has id -1, which is the table's last entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mooring.api.objects import Node, NodeSelector, NodeSelectorTerm
from mooring.api.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    GT,
    IN,
    NOT_IN,
    NodeTerm,
    Requirement,
    Selector,
    compile_node_term,
    parse_int64,
)
from mooring.framework.nodes import BoolArray, Ids, Nodes
from mooring.framework.pod import Shape

T = TypeVar("T")
V = TypeVar("V", bool, int)

_NAME_FIELD = "metadata.name"


def match_requirement(nodes: Nodes, requirement: Requirement) -> BoolArray:
    """Which rows meet one condition on one label."""
    key, operator, values = requirement
    column = nodes.label(key)
    if operator == IN:
        return _one_of(column, values)
    if operator == NOT_IN:
        return ~_one_of(column, values)
    if operator == EXISTS:
        return column.ids >= 0
    if operator == DOES_NOT_EXIST:
        return column.ids < 0
    return _compares(column, operator, values[0])


def match_selector(nodes: Nodes, selector: Selector) -> BoolArray:
    """Which rows' labels a compiled selector matches."""
    if selector.nothing:
        return np.zeros(len(nodes), np.bool_)
    return _all(nodes, [match_requirement(nodes, each) for each in selector.requirements])


def match_labels(nodes: Nodes, labels: Mapping[str, str]) -> BoolArray:
    """Which rows carry all these labels with these values."""
    return _all(nodes, [_one_of(nodes.label(key), (value,)) for key, value in labels.items()])


def match_compiled(nodes: Nodes, term: NodeTerm) -> BoolArray:
    """Which rows a compiled term of a node selector matches."""
    matched = match_selector(nodes, term.selector)
    for field in term.fields:
        matched &= _match_field(nodes, field)
    return matched


def match_term(nodes: Nodes, term: NodeSelectorTerm) -> BoolArray:
    """Which rows a term matches; an empty term and one that does not parse match none."""
    return match_compiled(nodes, compile_node_term(term))


def match_any(nodes: Nodes, terms: Sequence[NodeTerm]) -> BoolArray:
    """Which rows at least one of the terms matches; none without terms."""
    matched = np.zeros(len(nodes), np.bool_)
    for term in terms:
        matched |= match_compiled(nodes, term)
    return matched


def match_node_selector(nodes: Nodes, selector: NodeSelector | None) -> BoolArray:
    """Which rows a node selector matches; every one where there is no selector."""
    if selector is None:
        return np.ones(len(nodes), np.bool_)
    return match_any(nodes, [compile_node_term(term) for term in selector.node_selector_terms])


def match_required(nodes: Nodes, shape: Shape) -> BoolArray:
    """Which rows satisfy the pod's nodeSelector and its required node affinity."""
    required = _required_of(shape)
    matched = match_labels(nodes, required.labels)
    return matched if required.terms is None else matched & match_any(nodes, required.terms)


def required_matches(shape: Shape, node: Node) -> bool:
    """Whether a node object satisfies the pod's nodeSelector and its required node affinity."""
    required, name, labels = _required_of(shape), node.name, node.metadata.labels
    if required.names is not None and name not in required.names:
        return False
    if any(labels.get(key) != value for key, value in required.labels.items()):
        return False
    return required.terms is None or any(term.matches(labels, name) for term in required.terms)


def named_nodes(shape: Shape) -> frozenset[str] | None:
    """The only nodes that can match because every required term names its own; None where some term does
    not."""
    return _required_of(shape).names


class _Required(NamedTuple):
    """What a pod requires of nodes, compiled."""

    labels: Mapping[str, str]
    terms: Sequence[NodeTerm] | None  # None: no required node affinity
    names: frozenset[str] | None  # of the nodes that the terms name, if each of them does


def _required_of(shape: Shape) -> _Required:
    required: _Required | None = shape.derived.get(_required_of)
    if required is None:
        affinity = shape.spec.affinity.node_affinity if shape.spec.affinity is not None else None
        selector = affinity.required if affinity is not None else None
        labels = shape.spec.node_selector or {}
        if selector is None:
            required = _Required(labels, None, None)
        else:
            terms = [compile_node_term(term) for term in selector.node_selector_terms]
            required = _Required(labels, terms, _named_nodes(selector.node_selector_terms))
        shape.derived[_required_of] = required
    return required


def _named_nodes(terms: Sequence[NodeSelectorTerm]) -> frozenset[str] | None:
    named: set[str] = set()
    for term in terms:
        lists = [
            frozenset(field.values)
            for field in term.match_fields
            if field.key == _NAME_FIELD and field.operator == IN
        ]
        if not lists:
            return None
        named |= lists[0].intersection(*lists[1:])
    return frozenset(named) if terms else None


def _all(nodes: Nodes, parts: Sequence[BoolArray]) -> BoolArray:
    if not parts:
        return np.ones(len(nodes), np.bool_)
    matched = parts[0]
    for part in parts[1:]:
        matched = matched & part
    return matched


def _one_of(column: Ids[str], values: Sequence[str]) -> BoolArray:
    """Which rows have one of the wanted values."""
    if len(values) == 1:
        wanted_id = _find(column.values, values[0])
        return np.zeros(len(column.ids), np.bool_) if wanted_id is None else column.ids == wanted_id
    return spread(column, frozenset(values).__contains__, np.bool_)


def _find(values: Sequence[str], value: str) -> int | None:
    try:
        return values.index(value)
    except ValueError:
        return None


def _compares(column: Ids[str], operator: str, text: str) -> BoolArray:
    """Gt and Lt: both sides are numbers; what is absent or no number matches neither."""
    bound = parse_int64(text)

    def test(value: str) -> bool:
        number = parse_int64(value)
        if number is None or bound is None:
            return False
        return number > bound if operator == GT else number < bound

    return spread(column, test, np.bool_)


def spread(column: Ids[T], answer: Callable[[T], V], dtype: type[np.generic]) -> npt.NDArray[Any]:
    """The answer for each distinct value, spread over the rows; rows without a value get zero."""
    ids, values = column
    table = np.zeros(len(values) + 1, dtype)
    # A view of few rows does not pay for all values that the table has ever seen.
    present = range(len(values)) if len(ids) >= len(values) else set(ids.tolist())
    for i in present:
        if i >= 0:
            table[i] = answer(values[i])
    return table[ids]


def _match_field(nodes: Nodes, field: Requirement) -> BoolArray:
    """matchFields. `metadata.name` is the only field that nodes have; any other is empty."""
    key, operator, values = field
    if key != _NAME_FIELD:
        return np.full(len(nodes), (values[0] == "") == (operator == IN), np.bool_)
    matched = np.zeros(len(nodes), np.bool_)
    position = nodes.index(values[0])
    if position is not None:
        matched[position] = True
    return matched if operator == IN else ~matched
