"""Label and field selectors of lists and watches, as predicates of records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from mooring.api.selector_text import parse_selector
from mooring.api.selectors import Selector, SelectorError, from_requirements, requirement
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.errors import bad_request
from mooring.sandbox.apiserver.store.record import Record
from mooring.sandbox.apiserver.store.watch import Predicate

_DEVICES: Final = "resource.k8s.io"


def parse_labels(text: str) -> Selector:
    """Parse a selector such as `app=web,tier in (a,b),!canary`. Raises ApiError 400."""
    try:
        return from_requirements(requirement(*term) for term in parse_selector(text))
    except SelectorError as error:
        raise bad_request(str(error)) from None


# ---- fields ---------------------------------------------------------------------------------------


class FieldTerm(NamedTuple):
    field: str
    value: str
    equal: bool


def parse_fields(text: str) -> list[FieldTerm]:
    """Parse a selector such as `status.phase!=Failed,spec.nodeName=a`. Raises ApiError 400."""
    terms = []
    for term in _split(text):
        if not term:
            continue
        match = re.match(r"((?:[^\\=!]|\\.|!(?!=))*)(!=|==|=)(.*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = match.groups()
        terms.append(FieldTerm(field, _unescaped(value, text), operator != "!="))
    return terms


def _split(text: str) -> Iterable[str]:
    return [term for term in re.split(r"(?<!\\),", text) if term]


def _unescaped(value: str, text: str) -> str:
    if re.search(r"(?<!\\)(?:\\\\)*\\(?![\\,=])", value) or re.search(r"(?<!\\)=", value):
        raise bad_request(f"invalid field selector: invalid value: '{value}' in '{text}'")
    return re.sub(r"\\([\\,=])", r"\1", value)


def _field_of(resource: Resource, term: FieldTerm) -> int:
    """Return the index of the field in a record's selectable fields; -1 is the name, -2 the namespace."""
    if term.field == "metadata.name":
        return -1
    if term.field == "metadata.namespace" and resource.namespaced:
        return -2
    selectable = resource.strategy.traits.selectable
    field = resource.field_aliases.get(term.field, term.field)
    if field in selectable:
        return selectable.index(field)
    if selectable:
        # Only the message about slices names the kind.
        kind = f" for {resource.api_version}, Kind={resource.kind}" if resource.group == _DEVICES else ""
        raise bad_request(f"field label not supported{kind}: {term.field}")
    raise bad_request(
        f'"{term.field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


# ---- both -----------------------------------------------------------------------------------------


def matcher(resource: Resource, namespace: str, labels: str, fields: str) -> Predicate | None:
    """Return a predicate of records, or None if all match."""
    tests: list[Callable[[Record], bool]] = []
    if namespace:
        prefix = namespace + "/"
        tests.append(lambda record: record.key.startswith(prefix))
    terms: dict[int, set[FieldTerm]] = {}
    for term in parse_fields(fields):
        terms.setdefault(_field_of(resource, term), set()).add(term)
    tests += [_field_test(place, some) for place, some in terms.items()]
    selector = parse_labels(labels)
    if not selector.empty:
        tests.append(lambda record: selector.matches(record.labels))
    if len(tests) < 2:
        return tests[0] if tests else None
    return lambda record: all(test(record) for test in tests)


def _field_test(place: int, terms: set[FieldTerm]) -> Predicate:
    """Return a predicate for all terms about a field: each watch may have a thousand."""
    equal = {term.value for term in terms if term.equal}
    others = frozenset(term.value for term in terms if not term.equal)
    if len(equal) > 1 or equal & others:
        return lambda record: False
    if equal:
        return _equality_test(place, equal.pop())
    if place == -1:
        return lambda record: record.name not in others
    if place == -2:
        return lambda record: record.namespace not in others
    return lambda record: record.fields[place] not in others


def _equality_test(place: int, value: str) -> Predicate:
    if place == -1:
        return lambda record: record.name == value
    if place == -2:
        return lambda record: record.namespace == value
    return lambda record: record.fields[place] == value
