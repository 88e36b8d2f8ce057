"""Field selectors as predicates of records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.sandbox.apiserver.store.record import Record
from mooring.sandbox.apiserver.verbs.selectors import matcher
from tests.calls import count_calls
from tests.sandbox.apiserver.kit import Direct

FIELDS = ["metadata.name", "metadata.namespace", "spec.nodeName", "status.phase"]
VALUES = st.sampled_from(["a", "b", ""])
TERMS = st.lists(st.tuples(st.sampled_from(FIELDS), st.sampled_from(["=", "==", "!="]), VALUES))
PODS = Direct().api.registry.find("", "v1", "pods")


def pod(name: str, namespace: str, node: str, phase: str) -> Record:
    assert PODS is not None
    values = {"spec.nodeName": node, "status.phase": phase}
    selectable = PODS.strategy.traits.selectable
    return Record(f"{namespace}/{name}", 1, b"", None, tuple(values.get(field, "") for field in selectable))


@given(TERMS, VALUES, VALUES, VALUES, VALUES)
def test_a_field_selector_matches_what_all_its_terms_match(
    terms: list[tuple[str, str, str]], name: str, namespace: str, node: str, phase: str
) -> None:
    assert PODS is not None
    matches = matcher(PODS, "", "", ",".join(map("".join, terms)))
    values = dict(zip(FIELDS, (name, namespace, node, phase), strict=True))
    expected = all((values[field] == value) == (operator != "!=") for field, operator, value in terms)
    assert (matches is None or matches(pod(name, namespace, node, phase))) is expected


def test_many_terms_about_a_field_are_one_test() -> None:
    assert PODS is not None
    matches = matcher(PODS, "", "", ",".join(f"metadata.name!=a{number}" for number in range(900)))
    assert matches is not None
    record = pod("b", "default", "", "")
    assert count_calls(lambda: matches(record)) < 20
