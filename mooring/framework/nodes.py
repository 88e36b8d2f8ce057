"""Nodes as plugins see them: one node, or rows of the node table as NumPy columns.

A `Nodes` is a view: of the whole table, of some rows, or of some rows as they would be with pods added or
removed (preemption and nominated pods ask such questions). A plugin computes on the columns and gives one
answer per row; it need not know which of the three it was handed.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.objects import Node, Taint
from mooring.framework.affinity import AffinityTerm
from mooring.framework.pod import PodInfo, Resources, Shape
from mooring.framework.status import Code, Status

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
T_co = TypeVar("T_co", covariant=True)


class NodeInfo(Protocol):
    """One node: its object, the pods on it and the sums over them."""

    @property
    def name(self) -> str: ...
    @property
    def node(self) -> Node: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...
    @property
    def taints(self) -> Sequence[Taint]: ...
    @property
    def unschedulable(self) -> bool: ...
    @property
    def pods(self) -> Sequence[PodInfo]: ...
    @property
    def allocatable(self) -> Resources: ...
    @property
    def requested(self) -> Resources: ...
    @property
    def free(self) -> Resources: ...

    # the same as plain lists, which are quicker to compute with
    @property
    def resources(self) -> Sequence[str]:
        """The names of the resources, in the order of the amounts."""
        ...

    @property
    def allocatable_amounts(self) -> Sequence[int]: ...
    @property
    def requested_amounts(self) -> Sequence[int]: ...
    @property
    def nonzero_requested(self) -> Sequence[int]:
        """Cpu and memory, in which a container that requests none counts with a default."""
        ...

    @property
    def pod_count(self) -> int: ...
    @property
    def allowed_pods(self) -> int: ...
    @property
    def amounts(self) -> tuple[int, ...]:
        """All of these in one, laid out as `framework.amounts` says: equal for nodes of one size that are
        equally full."""
        ...


class Ids(NamedTuple, Generic[T_co]):
    """A column of interned values: `values[ids[i]]` is row i's; -1 is "has none"."""

    ids: npt.NDArray[np.int32]
    values: Sequence[T_co]


class Mark(msgspec.Struct, frozen=True):
    """A moment in the table's history."""

    nodes: int
    pods: int
    length: int


class PodPredicate(Hashable, Protocol):
    """A question about a pod's shape. The table counts the pods that answer yes, per node, as they come
    and go; equal predicates share one count."""

    @property
    def count_terminating(self) -> bool:
        """Whether pods that are being deleted count."""
        ...

    def matches(self, shape: Shape) -> bool: ...


class RowCounts(Protocol):
    """How many pods match a predicate on each row of the table, kept up to date at the cost of the changes.

    `refresh` brings it up to date and says whether any count changed.
    """

    @property
    def counts(self) -> IntArray: ...

    @property
    def changed(self) -> Mapping[int, int] | None:
        """By how much the last refresh changed which rows; None: perhaps all."""
        ...

    def refresh(self) -> bool: ...


class DomainSums(Protocol):
    """How many pods match a predicate in each topology domain, kept up to date at the cost of the changes.

    `refresh` brings it up to date and says whether any sum or domain changed.
    """

    @property
    def ids(self) -> npt.NDArray[np.int32]:
        """The domain of each row of the table; -1 for rows that are not counted."""
        ...

    @property
    def sums(self) -> IntArray:
        """The number of matching pods by domain."""
        ...

    @property
    def members(self) -> IntArray:
        """The number of counted rows by domain; a domain without any does not exist."""
        ...

    @property
    def total(self) -> int: ...

    def refresh(self) -> bool: ...


class Columns(Protocol):
    """Amounts by resource name: `columns["cpu"]` is one number per row (zeros for an unknown resource)."""

    def __getitem__(self, resource: str) -> IntArray: ...

    @property
    def matrix(self) -> IntArray:
        """All resources at once, one line per resource in the order of `Nodes.resources`."""
        ...


class Nodes(Protocol):
    """Rows of the node table."""

    def __len__(self) -> int: ...
    def __getitem__(self, i: int) -> NodeInfo: ...
    def __iter__(self) -> Iterator[NodeInfo]: ...

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def rows(self) -> npt.NDArray[np.intp]:
        """The row of the table that each of these is, for looking into whole-table results."""
        ...

    @property
    def whole(self) -> Nodes:
        """All rows of the table, as they are."""
        ...

    def where(self, mask: BoolArray) -> Nodes:
        """The rows of the table, as they are, where a whole-table mask is true."""
        ...

    def take(self, rows: slice | npt.NDArray[np.intp]) -> Nodes:
        """A view of these rows of the table, as they are."""
        ...

    def index(self, name: str) -> int | None:
        """The position of the node of that name among these rows."""
        ...

    # what changed
    @property
    def mark(self) -> Mark:
        """This moment, for `changed_since`."""
        ...

    def changed_since(self, mark: Mark) -> tuple[array[int] | None, array[int] | None]:
        """The rows of the table whose Node object changed, and those whose pods did (repeats possible);
        None for "perhaps all"."""
        ...

    # hypothetical pods
    hypothetical: bool  # whether this view has pods added or removed

    def changes(self, i: int) -> tuple[Sequence[PodInfo], Sequence[PodInfo]]:
        """The pods removed from and added to row i, compared with the table."""
        ...

    def part(self, keep: npt.NDArray[np.intp]) -> Nodes:
        """Some rows of this view, by position."""
        ...

    def what_if(
        self,
        rows: npt.NDArray[np.intp],
        removable: Sequence[Sequence[PodInfo]],
        addable: Sequence[Sequence[PodInfo]],
    ) -> HypotheticalNodes:
        """Rows of the table with pods that can be taken away (`removable[k]` are on row k now) and pods
        that can be added. It begins as the plain truth."""
        ...

    @property
    def node_version(self) -> int:
        """Changes whenever a node is added, removed or relevantly updated (not when pods come and go)."""
        ...

    # amounts
    @property
    def resources(self) -> Sequence[str]:
        """The resources that have a column: cpu, memory, ephemeral-storage, then the scalar ones."""
        ...

    @property
    def amounts(self) -> IntArray:
        """All of the following in one matrix, laid out as `framework.amounts` says."""
        ...

    @property
    def allocatable(self) -> Columns: ...
    @property
    def requested(self) -> Columns: ...
    @property
    def free(self) -> Columns: ...
    @property
    def room(self) -> IntArray:
        """How many more pods a node may have, then what is free of each resource: one line each."""
        ...

    @property
    def nonzero_requested(self) -> IntArray:
        """Two lines, cpu and memory, in which a container that requests none counts with a default."""
        ...

    @property
    def pod_count(self) -> IntArray: ...
    @property
    def allowed_pods(self) -> IntArray: ...

    # content of the Node objects
    @property
    def unschedulable(self) -> BoolArray: ...
    @property
    def taints(self) -> Ids[tuple[Taint, ...]]: ...
    @property
    def declared_features(self) -> Ids[frozenset[str]]: ...
    def label(self, key: str) -> Ids[str]:
        """The values of one label."""
        ...

    def image(self, name: str) -> tuple[BoolArray, int, int]:
        """For a normalised image name: which rows have it, its size, and how many nodes have it."""
        ...

    # pods on the rows
    def count(self, predicate: PodPredicate) -> IntArray:
        """How many pods on each row match."""
        ...

    def delta(self, predicate: PodPredicate) -> IntArray | None:
        """How many more matching pods this view has than the table; None where it is the table as it is.

        Terminating pods count here whatever the predicate says, as in kube-scheduler's AddPod/RemovePod.
        """
        ...

    def row_counts(self, predicate: PodPredicate) -> RowCounts:
        """A new count by rows of the whole table; when `node_version` changes, make a new one."""
        ...

    def domain_sums(self, predicate: PodPredicate, key: str, eligible: BoolArray | None = None) -> DomainSums:
        """A new count by values of label `key` over the whole table, of the eligible rows if given.

        `eligible` is over the whole table; when `node_version` changes, make a new one.
        """
        ...

    @property
    def carried_terms(self) -> Sequence[AffinityTerm]:
        """Every distinct inter-pod affinity term that pods on nodes have carried so far, in order of
        first appearance; the list only grows, so a reader can remember how far it has read."""
        ...


class HypotheticalNodes(Nodes, Protocol):
    """Rows whose pods can be switched off and on; row k's pods are `pods[k]`, removable ones first."""

    @property
    def pods(self) -> Sequence[Sequence[PodInfo]]: ...
    @property
    def present(self) -> BoolArray:
        """Which pods are there: one line per row, one column per position in `pods`."""
        ...

    def has(self, j: int) -> BoolArray:
        """The rows that have a j-th pod."""
        ...

    def set_present(self, j: int, rows: BoolArray, present: bool) -> None:
        """Switch the j-th pod of the chosen rows on or off."""
        ...

    def set_all_present(self, which: BoolArray, present: bool) -> None:
        """Switch the chosen pods on or off; `which` is laid out as `present`."""
        ...


class NodeStatuses(Mapping[str, Status]):
    """Why each node was refused, by node name."""

    @abstractmethod
    def rows_with(self, code: Code) -> npt.NDArray[np.intp]:
        """The rows of the node table that were refused with a code, in order."""


class Verdicts(NamedTuple):
    """A table-wide filter's answer: 0 where the node passes, else a code that `statuses` explains."""

    codes: npt.NDArray[np.int32]
    statuses: Mapping[int, Status]


class Groups(NamedTuple):
    """A table-wide scorer's answer where many rows score alike: row r of the table has `scores[of[r]]`.

    What it says of rows that were not asked about, and of groups without rows, does not matter.
    """

    of: npt.NDArray[np.intp]
    raw: IntArray  # by group, before normalising
    scores: IntArray  # by group, 0 to 100


def refuse(refused: BoolArray, status: Status) -> Verdicts:
    """Verdicts where all refused rows have one status."""
    return Verdicts(refused.astype(np.int32), {1: status})
