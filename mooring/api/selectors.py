"""Label selectors and node selectors.

A selector is compiled once into `Selector`: a sorted set of `Requirement`s, interned by content. Two equal
selectors are therefore one object, so that caches may key on it, and the requirements are plain data, so
that other code may evaluate them over whole columns of labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from mooring.api.meta import LabelSelector
from mooring.api.objects import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from mooring.api.quantity import INT64_MAX, INT64_MIN

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
DOES_NOT_EXIST = "DoesNotExist"
GT = "Gt"
LT = "Lt"

LABEL_OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)
NODE_OPERATORS = (*LABEL_OPERATORS, GT, LT)
FIELD_OPERATORS = (IN, NOT_IN)

_MANY = 24  # requirements and values, from which they are looked up by key
_MOST_LONG = 32  # such selectors that are kept

_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_DNS = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


class SelectorError(ValueError):
    """A selector that Kubernetes would not parse."""


def parse_int64(text: str) -> int | None:
    """The number that Go's ParseInt(text, 10, 64) reads, or None where it fails."""
    if len(text) > 64 or not _INT.fullmatch(text):
        return None
    number = int(text)
    return number if INT64_MIN <= number <= INT64_MAX else None


def is_qualified_name(name: str) -> bool:
    """Whether `name` may be the key of a label or the name of a resource: `[prefix/]name`."""
    prefix, slash, rest = name.rpartition("/")
    if slash and (len(prefix) > 253 or not _DNS.fullmatch(prefix)):
        return False
    return len(rest) <= 63 and _NAME.fullmatch(rest) is not None


def is_label_value(value: str) -> bool:
    return not value or (len(value) <= 63 and _NAME.fullmatch(value) is not None)


class Requirement(NamedTuple):
    """One condition on one label. `values` are sorted and distinct, so equal conditions are equal tuples."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        label = labels.get(self.key)
        operator = self.operator
        if operator == IN:
            return label is not None and label in self.values
        if operator == NOT_IN:
            return label is None or label not in self.values
        if operator == EXISTS:
            return label is not None
        if operator == DOES_NOT_EXIST:
            return label is None
        return label is not None and self._compares(label)

    def _compares(self, label: str) -> bool:
        left, right = parse_int64(label), parse_int64(self.values[0])
        if left is None or right is None:
            return False
        return left > right if self.operator == GT else left < right


def requirement(key: str, operator: str, values: Iterable[str] = ()) -> Requirement:
    """A requirement in canonical form; nothing is checked."""
    return Requirement(key, operator, tuple(sorted(set(values))))


def operator_problem(operator: str, values: Sequence[str], operators: Sequence[str]) -> str | None:
    """What is wrong with an operator and its values, in words that follow "expected"."""
    if operator not in operators:
        return f"one of the operators {', '.join(operators)}"
    if operator in (IN, NOT_IN) and not values:
        return f"at least one value for operator {operator}"
    if operator in (EXISTS, DOES_NOT_EXIST) and values:
        return f"no values for operator {operator}"
    if operator in (GT, LT) and (len(values) != 1 or parse_int64(values[0]) is None):
        return f"exactly one value, an integer, for operator {operator}"
    return None


def _checked(key: str, operator: str, values: Sequence[str], operators: Sequence[str]) -> Requirement:
    problem = operator_problem(operator, values, operators)
    if problem is not None:
        shown = f"[{' '.join(values)}]" if operator in operators else f'"{operator}"'
        raise SelectorError(f'key "{key}": found {shown}, expected {problem}')
    if not is_qualified_name(key):
        raise SelectorError(f'key "{key}": expected the name of a label')
    for value in values:
        if not is_label_value(value):
            raise SelectorError(f'key "{key}": found "{value}", expected the value of a label')
    return requirement(key, operator, values)


# ---- label selectors ----------------------------------------------------------------------------


class _Condition:
    """All requirements on one key together, so that their number does not matter to each object."""

    __slots__ = ("_above", "_allowed", "_below", "_denied", "is_forbidden", "is_needed")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self.is_needed = self.is_forbidden = False
        self._allowed: frozenset[str] | None = None
        self._denied: set[str] = set()
        self._above: int | None = None
        self._below: int | None = None
        for _, operator, values in requirements:
            self.is_needed |= operator in (IN, EXISTS, GT, LT)
            if operator == DOES_NOT_EXIST:
                self.is_forbidden = True
            elif operator == NOT_IN:
                self._denied.update(values)
            elif operator == IN:
                self._allowed = frozenset(values) if self._allowed is None else self._allowed & set(values)
            elif operator in (GT, LT):
                self._bound(operator, parse_int64(values[0]))

    def _bound(self, operator: str, bound: int | None) -> None:
        if bound is None:
            self._allowed = frozenset()  # nothing compares
        elif operator == GT:
            self._above = bound if self._above is None else max(self._above, bound)
        else:
            self._below = bound if self._below is None else min(self._below, bound)

    def accepts(self, value: str) -> bool:
        if self.is_forbidden or value in self._denied:
            return False
        if self._allowed is not None and value not in self._allowed:
            return False
        if self._above is None and self._below is None:
            return True
        number = parse_int64(value)
        if number is None or (self._above is not None and number <= self._above):
            return False
        return self._below is None or number < self._below


class Selector:
    """A conjunction of requirements, or the selector that matches nothing.

    Made by `compile_selector`, `from_map`, `from_requirements`; never by hand, since the constructor does
    not intern. Equality and hash are those of identity.
    """

    __slots__ = (
        "__weakref__", "_by_key", "_equal", "_needed", "_others", "empty", "nothing", "requirements",
    )  # fmt: skip

    def __init__(self, requirements: tuple[Requirement, ...], nothing: bool) -> None:
        self.requirements = requirements
        self.nothing = nothing
        self.empty = not requirements and not nothing
        single = [r for r in requirements if r.operator == IN and len(r.values) == 1]
        self._equal = tuple((r.key, r.values[0]) for r in single)
        self._others = tuple(r for r in requirements if r.operator != IN or len(r.values) != 1)
        self._by_key: dict[str, _Condition] | None = None
        self._needed: frozenset[str] = frozenset()
        if len(requirements) + sum(len(r.values) for r in requirements) > _MANY:
            keys: dict[str, list[Requirement]] = {}
            for each in requirements:
                keys.setdefault(each.key, []).append(each)
            self._by_key = {key: _Condition(these) for key, these in keys.items()}
            self._needed = frozenset(key for key, one in self._by_key.items() if one.is_needed)

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.nothing:
            return False
        if self._by_key is not None:
            return self._matches_many(self._by_key, labels)
        for key, value in self._equal:
            if labels.get(key) != value:
                return False
        return not self._others or all(other.matches(labels) for other in self._others)

    def _matches_many(self, by_key: dict[str, _Condition], labels: Mapping[str, str]) -> bool:
        """Look at each label once: a client may send thousands of requirements, for thousands of objects."""
        if len(self._needed) > len(labels) or not all(key in labels for key in self._needed):
            return False
        for key, value in labels.items():
            condition = by_key.get(key)
            if condition is not None and not condition.accepts(value):
                return False
        return True

    def conjoin(self, other: Selector) -> Selector:
        """The selector that matches what both match."""
        if self.nothing or other.nothing:
            return NOTHING
        return from_requirements(self.requirements + other.requirements)

    def __reduce__(self) -> tuple[object, ...]:
        return _intern, (self.requirements, self.nothing)

    def __repr__(self) -> str:
        return "Selector(nothing)" if self.nothing else f"Selector({self})"

    def __str__(self) -> str:
        """As kubectl prints it: `app=web,tier in (a,b),!canary`."""
        return "<nothing>" if self.nothing else ",".join(_show(r) for r in self.requirements)


def _show(requirement: Requirement) -> str:
    key, operator, values = requirement
    joined = ",".join(values)
    if operator == IN:
        return f"{key}={joined}" if len(values) == 1 else f"{key} in ({joined})"
    return {
        NOT_IN: f"{key} notin ({joined})",
        EXISTS: key,
        DOES_NOT_EXIST: f"!{key}",
        GT: f"{key}>{joined}",
        LT: f"{key}<{joined}",
    }[operator]


_interned: WeakValueDictionary[tuple[tuple[Requirement, ...], bool], Selector] = WeakValueDictionary()


def _intern(requirements: tuple[Requirement, ...], nothing: bool) -> Selector:
    key = (requirements, nothing)
    selector = _interned.get(key)
    if selector is None:
        selector = _interned.setdefault(key, Selector(requirements, nothing))
    return selector


def from_requirements(requirements: Iterable[Requirement]) -> Selector:
    return _intern(tuple(sorted(set(requirements))), False)


NOTHING = _intern((), True)
EVERYTHING = from_requirements(())


def from_map(labels: Mapping[str, str]) -> Selector:
    """All these labels, with these values; an empty map selects everything. Nothing is checked."""
    return from_requirements(Requirement(key, IN, (value,)) for key, value in labels.items())


_long: dict[int, tuple[LabelSelector, Selector]] = {}
"""Compiled forms of a few long selectors, by identity: controllers compile them again and again."""


def compile_selector(selector: LabelSelector | None) -> Selector:
    """The compiled form; None selects nothing and `{}` everything. Raises SelectorError."""
    if selector is None:
        return NOTHING
    if len(selector.match_labels) + len(selector.match_expressions) <= _MANY:
        return _compile(selector)
    cached = _long.get(id(selector))
    if cached is None:
        if len(_long) >= _MOST_LONG:
            _long.clear()
        equal = next((compiled for other, compiled in _long.values() if other == selector), None)
        cached = _long[id(selector)] = selector, equal or _compile(selector)
    return cached[1]


def _compile(selector: LabelSelector) -> Selector:
    requirements = [
        _checked(key, IN, (value,), LABEL_OPERATORS) for key, value in selector.match_labels.items()
    ]
    requirements += [
        _checked(e.key, e.operator, e.values, LABEL_OPERATORS) for e in selector.match_expressions
    ]
    return from_requirements(requirements)


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches, for a single question; compile it to ask many."""
    return compile_selector(selector).matches(labels)


# ---- node selectors -----------------------------------------------------------------------------


class NodeTerm(NamedTuple):
    """A compiled term of a node selector. `selector` is NOTHING where the term is empty or did not parse."""

    selector: Selector
    fields: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        if self.fields and not self.fields_match(name):
            return False
        return self.selector.matches(labels)

    def fields_match(self, name: str) -> bool:
        """Whether the node's name passes; `metadata.name` is the only field that nodes have."""
        for key, operator, values in self.fields:
            actual = name if key == "metadata.name" else ""
            if (actual == values[0]) != (operator == IN):
                return False
        return True


NEVER = NodeTerm(NOTHING)


def parse_node_term(term: NodeSelectorTerm) -> NodeTerm:
    """The compiled term; raises SelectorError where Kubernetes would fail to parse it."""
    if not term.match_expressions and not term.match_fields:
        return NEVER
    labels = [
        _in_term("matchExpressions", i, e, NODE_OPERATORS) for i, e in enumerate(term.match_expressions)
    ]
    fields = [_in_term("matchFields", i, e, FIELD_OPERATORS) for i, e in enumerate(term.match_fields)]
    return NodeTerm(from_requirements(labels), tuple(fields))


def _in_term(where: str, index: int, item: NodeSelectorRequirement, operators: Sequence[str]) -> Requirement:
    try:
        if operators is not FIELD_OPERATORS:
            return _checked(item.key, item.operator, item.values, operators)
        problem = field_problem(item.operator, item.values)
        if problem is not None:
            raise SelectorError(f'key "{item.key}": expected {problem}')
        return requirement(item.key, item.operator, item.values)
    except SelectorError as error:
        raise SelectorError(f"{where}[{index}]: {error}") from None


def field_problem(operator: str, values: Sequence[str]) -> str | None:
    """What is wrong with a requirement on a field, in words that follow "expected"."""
    if operator not in FIELD_OPERATORS:
        return f"one of the operators {', '.join(FIELD_OPERATORS)}"
    return None if len(values) == 1 else f"exactly one value for operator {operator}"


def compile_node_term(term: NodeSelectorTerm) -> NodeTerm:
    """The compiled term; one that does not parse matches no node, as in kube-scheduler's filter."""
    try:
        return parse_node_term(term)
    except SelectorError:
        return NEVER


def parse_problem(term: NodeSelectorTerm) -> str | None:
    """Why a term does not parse, or None."""
    try:
        parse_node_term(term)
    except SelectorError as error:
        return str(error)
    return None


def node_term_matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    return compile_node_term(term).matches(labels, name)


def node_selector_matches(selector: NodeSelector, labels: Mapping[str, str], name: str) -> bool:
    """Whether any term matches; without terms nothing does."""
    return any(node_term_matches(term, labels, name) for term in selector.node_selector_terms)
