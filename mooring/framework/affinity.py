"""Inter-pod affinity terms, compiled: who they select and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mooring.api.errors import MalformedObject
from mooring.api.meta import LabelSelector
from mooring.api.objects import Pod, PodAffinity, PodAffinityTerm
from mooring.api.selectors import Selector, SelectorError, compile_selector


class AffinityTerm(NamedTuple):
    """One term of podAffinity or podAntiAffinity. Weight 0 marks a required term."""

    anti: bool
    weight: int
    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector  # selects nothing where the term has none
    repeat: int = 0  # 1 for the second of equal terms of a pod, and so on: each of them counts

    @property
    def required(self) -> bool:
        return self.weight == 0

    def selects(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels, in that namespace, is one the term speaks of."""
        in_namespace = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return in_namespace and self.selector.matches(labels)


def terms_of(pod: Pod) -> tuple[AffinityTerm, ...]:
    """All inter-pod affinity terms of a pod: affinity before anti-affinity, required before preferred."""
    affinity = pod.spec.affinity
    if affinity is None:
        return ()
    terms: list[AffinityTerm] = []
    occurrences: dict[AffinityTerm, int] = {}
    for term in (
        *_compile(affinity.pod_affinity, pod, anti=False),
        *_compile(affinity.pod_anti_affinity, pod, anti=True),
    ):
        repeat = occurrences.get(term, 0)
        occurrences[term] = repeat + 1
        terms.append(term._replace(repeat=repeat) if repeat else term)
    return tuple(terms)


def _compile(affinity: PodAffinity | None, pod: Pod, *, anti: bool) -> Iterator[AffinityTerm]:
    if affinity is None:
        return
    for i, term in enumerate(affinity.required):
        yield _term(term, anti, 0, pod, f"requiredDuringSchedulingIgnoredDuringExecution[{i}]")
    for i, weighted in enumerate(affinity.preferred):
        if weighted.weight:  # kube-scheduler ignores a preference without weight
            field = f"preferredDuringSchedulingIgnoredDuringExecution[{i}].podAffinityTerm"
            yield _term(weighted.pod_affinity_term, anti, weighted.weight, pod, field)


def _term(term: PodAffinityTerm, anti: bool, weight: int, pod: Pod, field: str) -> AffinityTerm:
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset((pod.metadata.namespace,))
    where = f"spec.affinity.{'podAntiAffinity' if anti else 'podAffinity'}.{field}"
    return AffinityTerm(
        anti,
        weight,
        term.topology_key,
        _selector(term.label_selector, pod, f"{where}.labelSelector"),
        namespaces,
        _selector(term.namespace_selector, pod, f"{where}.namespaceSelector"),
    )


def _selector(selector: LabelSelector | None, pod: Pod, field: str) -> Selector:
    try:
        return compile_selector(selector)
    except SelectorError as exc:
        raise MalformedObject("Pod", pod.key, field, selector, str(exc)) from exc
