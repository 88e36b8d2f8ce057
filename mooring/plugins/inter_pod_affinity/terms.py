"""The affinity terms that concern a pod: its own, and those of pods on nodes that speak of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from mooring.api.workloads import Namespace
from mooring.framework.affinity import AffinityTerm
from mooring.framework.handle import Listers
from mooring.framework.nodes import IntArray, PodPredicate
from mooring.framework.pod import Shape
from mooring.plugins.predicates import PodsSelected
from mooring.runtime.engine_nodes import DomainSums, EngineNodes

ON_NO_NODE = ""  # as a label's key

_NO_LABELS: Mapping[str, str] = {}


class Selection(NamedTuple):
    """One of the pod's own terms: which pods it means, and in which domains."""

    pods: PodsSelected
    topology_key: str
    weight: int  # negative for anti-affinity; 0 where the term is required


T = TypeVar("T", Selection, AffinityTerm)


class Concerns:
    """The terms that concern pods of one shape. `version` changes when they do.

    A term's namespace selector is applied differently on the two sides, as in kube-scheduler. The pod's own
    is replaced by the namespaces that it selects now; if it would also match a namespace without labels, it
    matches all. That of a pod on a node is asked about the labels of this pod's namespace.
    """

    def __init__(self, shape: Shape, listers: Listers) -> None:
        self.version = 0
        self.affinity: tuple[Selection, ...] = ()
        self.anti: tuple[Selection, ...] = ()
        self.preferred: tuple[Selection, ...] = ()
        self.refusing: list[AffinityTerm] = []  # required anti-affinity of others that selects this pod
        self.attracting: list[AffinityTerm] = []  # their other terms: required affinity, preferences
        self._shape = shape
        self._listers = listers
        self._namespace_labels: Mapping[str, str] | None = None
        self._namespace_version: int | None = None
        self._carried: Sequence[AffinityTerm] = ()
        self._read = 0  # how many of those

    def update(self, nodes: EngineNodes) -> None:
        """Take in the terms that pods have brought to nodes, and changes of namespaces, since last time."""
        version = self._listers.version(Namespace)
        if version != self._namespace_version:
            self._select()
            self._namespace_version = version
        carried = nodes.carried_terms
        if carried is not self._carried:
            self._carried = carried
            self._forget_carried()
        if self._read != len(carried):
            self._match(carried[self._read :])
            self._read = len(carried)

    def _select(self) -> None:
        namespace = self._listers.get(Namespace, self._shape.namespace)
        labels = _NO_LABELS if namespace is None else namespace.metadata.labels
        if labels != self._namespace_labels:
            self._namespace_labels = labels
            self._forget_carried()
        terms = self._shape.affinity_terms
        affinity = tuple(self._resolve(t) for t in terms if t.required and not t.anti)
        anti = tuple(self._resolve(t) for t in terms if t.required and t.anti)
        preferred = tuple(self._resolve(t) for t in terms if not t.required)
        if (affinity, anti, preferred) != (self.affinity, self.anti, self.preferred):
            self.affinity, self.anti, self.preferred = affinity, anti, preferred
            self.version += 1

    def _forget_carried(self) -> None:
        self._read = 0
        self.refusing, self.attracting = [], []
        self.version += 1

    def _resolve(self, term: AffinityTerm) -> Selection:
        namespaces: frozenset[str] | None = term.namespaces
        selector = term.namespace_selector
        if selector.matches(_NO_LABELS):
            namespaces = None
        elif not selector.nothing:
            every = self._listers.list(Namespace)
            namespaces = term.namespaces | {n.name for n in every if selector.matches(n.metadata.labels)}
        weight = -term.weight if term.anti else term.weight
        return Selection(PodsSelected(namespaces, term.selector), term.topology_key, weight)

    def _match(self, terms: Iterable[AffinityTerm]) -> None:
        shape, namespace_labels = self._shape, self._namespace_labels or _NO_LABELS
        for term in terms:
            if term.selects(shape.namespace, namespace_labels, shape.labels):
                (self.refusing if term.required and term.anti else self.attracting).append(term)
                self.version += 1


def group_by_key(terms: Iterable[T], whole: EngineNodes) -> dict[str, list[T]]:
    """Group terms by topology key. Terms whose key no node has form one group: a pod may name thousands of
    such keys, and they all have the same effect."""
    by_key: dict[str, list[T]] = {}
    for term in terms:
        by_key.setdefault(term.topology_key, []).append(term)
    grouped: dict[str, list[T]] = {}
    for key, group in by_key.items():
        grouped.setdefault(key if whole.label(key).values else ON_NO_NODE, []).extend(group)
    return grouped


class Tally:
    """How many pods match a predicate, by the values of a label, in the table as it is."""

    __slots__ = ("_some", "_sums", "predicate")

    def __init__(self, nodes: EngineNodes, predicate: PodPredicate, topology_key: str) -> None:
        self.predicate = predicate
        self._sums: DomainSums = nodes.domain_sums(predicate, topology_key)
        self._some: bool | None = None

    @property
    def sums(self) -> IntArray:
        return self._sums.sums

    @property
    def total(self) -> int:
        return self._sums.total

    @property
    def some(self) -> bool:
        """Whether there is any such pod in any domain."""
        if self._some is None:
            self._some = self.total > 0
        return self._some

    def refresh(self) -> bool:
        """Bring the sums up to date; whether they changed."""
        if not self._sums.refresh():
            return False
        self._some = None
        return True


class Tallies:
    """The tallies in use, kept while the table's nodes stay as they are."""

    def __init__(self) -> None:
        self._node_version: int | None = None
        self._tallies: dict[tuple[PodPredicate, str], Tally] = {}

    def stale(self, nodes: EngineNodes) -> bool:
        """Whether nodes have changed since, in which case all tallies are forgotten."""
        if self._node_version == nodes.node_version:
            return False
        self._node_version = nodes.node_version
        self._tallies.clear()
        return True

    def get(self, nodes: EngineNodes, predicate: PodPredicate, topology_key: str) -> Tally:
        key = (predicate, topology_key)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally(nodes, predicate, topology_key)
        return tally
