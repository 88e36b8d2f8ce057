"""Label and field selectors of lists and watches: parsed, and made into a test of records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import reduce
from typing import NamedTuple

from mooring.api.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    GT,
    IN,
    LT,
    NOT_IN,
    Requirement,
    Selector,
    from_requirements,
    is_label_value,
    is_qualified_name,
    parse_int64,
    requirement,
)
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.errors import bad_request, show
from mooring.sandbox.apiserver.store.record import Record
from mooring.sandbox.apiserver.store.watch import Predicate
from mooring.sandbox.apiserver.validation.names import LABEL_VALUE, QUALIFIED_NAME

_TOKEN = re.compile(r"\s*(?:([!=<>]=?|==|[(),])|([^\s!=<>(),]+)|$)")


# ---- labels ---------------------------------------------------------------------------------------


def parse_labels(text: str) -> Selector:
    """A selector such as `app=web,tier in (a,b),!canary`. Raises ApiError 400."""
    tokens = _Tokens(text)
    found: list[Requirement] = []
    if tokens.next == "":
        return from_requirements(found)
    while True:
        found.append(_requirement(tokens))
        separator = tokens.take()
        if separator == "":
            return from_requirements(found)
        if separator != ",":
            raise _unparsed(f"found '{separator}', expected: ',' or 'end of string'")
        if tokens.next == "" or tokens.next == ",":
            raise _unparsed(f"found '{tokens.next}', expected: identifier after ','")


class _Tokens:
    """The symbols and words of a selector, one ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.next = ""
        self.take()

    def take(self) -> str:
        taken = self.next
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            self.next = ""
        else:
            self._at = match.end()
            self.next = match.group(1) or match.group(2) or ""
        return taken


_SYMBOLS = frozenset({"!", "=", "==", "!=", ">", "<", ">=", "<=", "(", ")", ",", ""})


def _requirement(tokens: _Tokens) -> Requirement:
    absent = tokens.next == "!"
    if absent:
        tokens.take()
    key = tokens.take()
    if key in _SYMBOLS:
        raise _unparsed(f"found '{key}', expected: identifier")
    if not is_qualified_name(key):
        raise _unparsed(f"<nil>: Invalid value: {show(key)}: {QUALIFIED_NAME}")
    if absent:
        return requirement(key, DOES_NOT_EXIST)
    if tokens.next in (",", ""):
        return requirement(key, EXISTS)
    operator = tokens.take()
    if operator in ("in", "notin"):
        return _checked(key, IN if operator == "in" else NOT_IN, _values(tokens))
    known = {"=": IN, "==": IN, "!=": NOT_IN, ">": GT, "<": LT}.get(operator)
    if known is None:
        expected = "in, notin, =, ==, !=, gt, lt"
        raise _unparsed(f"found '{operator}', expected: {expected}")
    value = "" if tokens.next in (",", "") else tokens.take()
    if value in _SYMBOLS and value:
        raise _unparsed(f"found '{value}', expected: identifier")
    return _checked(key, known, [value])


def _values(tokens: _Tokens) -> list[str]:
    if tokens.take() != "(":
        raise _unparsed("found '', expected: '('")
    values, value = [], ""
    while True:
        token = tokens.take()
        if token in (",", ")"):
            values.append(value)
            value = ""
            if token == ")":
                return values
        elif token in _SYMBOLS or value:
            raise _unparsed(f"found '{token}', expected: ',' or ')'")
        else:
            value = token


def _checked(key: str, operator: str, values: list[str]) -> Requirement:
    if operator in (GT, LT) and parse_int64(values[0]) is None:
        why = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise _unparsed(f"values[0]: Invalid value: {show(values[0])}: {why}")
    for index, value in enumerate(values):
        if not is_label_value(value):
            raise _unparsed(f"values[{index}][{key}]: Invalid value: {show(value)}: {LABEL_VALUE}")
    return requirement(key, operator, values)


def _unparsed(problem: str) -> Exception:
    return bad_request(f"unable to parse requirement: {problem}")


# ---- fields ---------------------------------------------------------------------------------------


class FieldTerm(NamedTuple):
    field: str
    value: str
    equal: bool


def parse_fields(text: str) -> list[FieldTerm]:
    """A selector such as `status.phase!=Failed,spec.nodeName=a`. Raises ApiError 400."""
    found = []
    for term in _split(text):
        if not term:
            continue
        match = re.match(r"((?:[^\\=!]|\\.|!(?!=))*)(!=|==|=)(.*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = match.groups()
        found.append(FieldTerm(field, _unescaped(value, text), operator != "!="))
    return found


def _split(text: str) -> Iterable[str]:
    return [term for term in re.split(r"(?<!\\),", text) if term]


def _unescaped(value: str, text: str) -> str:
    if re.search(r"(?<!\\)(?:\\\\)*\\(?![\\,=])", value) or re.search(r"(?<!\\)=", value):
        raise bad_request(f"invalid field selector: invalid value: '{value}' in '{text}'")
    return re.sub(r"\\([\\,=])", r"\1", value)


def _field_of(resource: Resource, term: FieldTerm) -> int:
    """Where a record has the field: among the selectable ones, -1 for the name, -2 for the namespace."""
    if term.field == "metadata.name":
        return -1
    if term.field == "metadata.namespace" and resource.namespaced:
        return -2
    selectable = resource.strategy.traits.selectable
    field = resource.field_aliases.get(term.field, term.field)
    if field in selectable:
        return selectable.index(field)
    if selectable:
        raise bad_request(f"field label not supported: {term.field}")
    raise bad_request(
        f'"{term.field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


# ---- both -----------------------------------------------------------------------------------------


def matcher(resource: Resource, namespace: str, labels: str, fields: str) -> Predicate | None:
    """A test of records, or None where all of the table pass."""
    tests: list[Callable[[Record], bool]] = []
    if namespace:
        prefix = namespace + "/"
        tests.append(lambda record: record.key.startswith(prefix))
    tests += [_field_test(_field_of(resource, term), term.value, term.equal) for term in parse_fields(fields)]
    selector = parse_labels(labels)
    if not selector.empty:
        tests.append(lambda record: selector.matches(record.labels))
    return reduce(_both, tests) if tests else None


def _both(one: Predicate, other: Predicate) -> Predicate:
    return lambda record: one(record) and other(record)


def _field_test(place: int, value: str, equal: bool) -> Callable[[Record], bool]:
    if place == -1:
        return lambda record: (record.name == value) == equal
    if place == -2:
        return lambda record: (record.namespace == value) == equal
    return lambda record: (record.fields[place] == value) == equal
