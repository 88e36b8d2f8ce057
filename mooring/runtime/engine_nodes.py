"""The node views as the engine and the default plugins use them: the contract's, and what is behind it.

A view is of the whole node table, of some rows, or of some rows as they would be with pods added or removed.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.framework.affinity import AffinityTerm
from mooring.framework.nodes import BoolArray, Columns, Ids, IntArray, NodeInfo, Nodes, PodPredicate
from mooring.framework.pod import PodInfo
from mooring.framework.status import Code, Status


class EngineNode(NodeInfo, Protocol):
    """One node, with its amounts also as plain lists, which are faster to compute with."""

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
        """Cpu and memory, where a container without a request counts with a default."""
        ...

    @property
    def amounts(self) -> tuple[int, ...]:
        """All amounts of resources that have lines in the node table, in the layout of `runtime.amounts`;
        equal for nodes of equal size and use, unless these have `sparse` amounts."""
        ...

    @property
    def sparse(self) -> Mapping[str, object]:
        """The other resources that the node has or its pods request."""
        ...


class Mark(msgspec.Struct, frozen=True):
    """A position in the table's change logs."""

    nodes: int
    pods: int
    length: int


class RowCounts(Protocol):
    """The number of pods that match a predicate on each row of the table, updated incrementally.

    `refresh` updates it and returns whether any count changed.
    """

    @property
    def counts(self) -> IntArray: ...

    @property
    def changed(self) -> Mapping[int, int] | None:
        """The changes of the last refresh by row; None: possibly all rows."""
        ...

    def refresh(self) -> bool: ...


class DomainSums(Protocol):
    """The number of pods that match a predicate in each topology domain, updated incrementally.

    `refresh` updates it and returns whether any sum or domain changed.
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


class EngineColumns(Columns, Protocol):
    """Columns by resource name, and all of them at once."""

    @property
    def matrix(self) -> IntArray:
        """One line per resource, in the order of `EngineNodes.resources`."""
        ...


class EngineNodes(Nodes, Protocol):
    """Rows of the node table."""

    def __getitem__(self, i: int) -> EngineNode: ...
    def __iter__(self) -> Iterator[EngineNode]: ...

    # ---- rows

    @property
    def rows(self) -> npt.NDArray[np.intp]:
        """The table row of each row of this view, for indexing whole-table results."""
        ...

    @property
    def whole(self) -> EngineNodes:
        """All rows of the table, without hypothetical pods."""
        ...

    def where(self, mask: BoolArray) -> EngineNodes:
        """Return the table rows, without hypothetical pods, where a whole-table mask is true."""
        ...

    def take(self, rows: slice | npt.NDArray[np.intp]) -> EngineNodes:
        """Return a view of these table rows, without hypothetical pods."""
        ...

    # ---- changes

    @property
    def mark(self) -> Mark:
        """The present position, for `changed_since`."""
        ...

    def changed_since(self, mark: Mark) -> tuple[array[int] | None, array[int] | None]:
        """Return the table rows whose Node object changed, and those whose pods did, possibly repeated.

        None: possibly all rows.
        """
        ...

    @property
    def node_version(self) -> int:
        """Changes when a node is added, removed or relevantly updated, not when pods come and go."""
        ...

    # ---- hypothetical pods

    hypothetical: bool  # whether this view has pods added or removed

    def changes(self, i: int) -> tuple[Sequence[PodInfo], Sequence[PodInfo]]:
        """Return the pods removed from and added to row i, compared with the table."""
        ...

    def part(self, keep: npt.NDArray[np.intp]) -> EngineNodes:
        """Return some rows of this view, by position."""
        ...

    def what_if(
        self,
        rows: npt.NDArray[np.intp],
        removable: Sequence[Sequence[PodInfo]],
        addable: Sequence[Sequence[PodInfo]],
    ) -> HypotheticalNodes:
        """Return table rows with pods that can be removed (`removable[k]` are on row k now) and pods that can
        be added. At first nothing is removed or added."""
        ...

    # ---- amounts

    @property
    def resources(self) -> Sequence[str]:
        """The resources that have lines: cpu, memory, ephemeral-storage, then the scalar ones that most nodes
        offer. Another sequence whenever these change."""
        ...

    @property
    def allocatable(self) -> EngineColumns: ...
    @property
    def requested(self) -> EngineColumns: ...
    @property
    def free(self) -> EngineColumns: ...
    @property
    def amounts(self) -> IntArray:
        """All amounts in one matrix, in the layout of `runtime.amounts`."""
        ...

    @property
    def room(self) -> IntArray:
        """The number of pods that can be added, then the free amount of each resource: one line each."""
        ...

    @property
    def nonzero_requested(self) -> IntArray:
        """Two lines, cpu and memory, where a container without a request counts with a default."""
        ...

    # ---- Node objects

    @property
    def declared_features(self) -> Ids[frozenset[str]]: ...
    def image(self, name: str) -> tuple[BoolArray, int, int]:
        """Return, for a normalized image name, which rows have it, its size, and how many nodes have it."""
        ...

    # ---- pods

    def delta(self, predicate: PodPredicate) -> IntArray | None:
        """Return how many more matching pods this view has than the table; None without hypothetical pods.

        Terminating pods count here whatever the predicate says, as in kube-scheduler's AddPod/RemovePod.
        """
        ...

    def row_counts(self, predicate: PodPredicate) -> RowCounts:
        """Return a new count by table rows. Make another one when `node_version` changes."""
        ...

    def domain_sums(self, predicate: PodPredicate, key: str, eligible: BoolArray | None = None) -> DomainSums:
        """Return a new count by values of label `key` over the table rows, or those that are eligible.

        Make another one when `node_version` changes.
        """
        ...

    @property
    def carried_terms(self) -> Sequence[AffinityTerm]:
        """Every distinct inter-pod affinity term of pods on nodes, and some of pods that are gone.

        The list only grows, so a reader can continue where it stopped. When terms of pods that are gone are
        dropped, it is replaced by another list.
        """
        ...


class HypotheticalNodes(EngineNodes, Protocol):
    """Rows whose pods can be switched off and on; row k's pods are `pods[k]`, removable ones first."""

    @property
    def pods(self) -> Sequence[Sequence[PodInfo]]: ...
    @property
    def present(self) -> BoolArray:
        """Which pods are present: one line per row, one column per position in `pods`."""
        ...

    def has(self, j: int) -> BoolArray:
        """Return the rows that have a j-th pod."""
        ...

    def set_present(self, j: int, rows: BoolArray, present: bool) -> None:
        """Switch the j-th pod of the chosen rows on or off."""
        ...

    def set_all_present(self, which: BoolArray, present: bool) -> None:
        """Switch the chosen pods on or off; `which` has the layout of `present`."""
        ...


class NodeStatuses(Mapping[str, Status]):
    """Why each node was rejected, by node name."""

    @abstractmethod
    def rows_with(self, code: Code) -> npt.NDArray[np.intp]:
        """Return the table rows that were rejected with a code, in order."""

    def count_with(self, code: Code) -> int:
        """Return how many nodes were rejected with a code."""
        return len(self.rows_with(code))


# Plugins are declared with the contract's types. The engine always calls them with its own, which the default
# plugins need.


def engine_nodes(nodes: Nodes) -> EngineNodes:
    return nodes  # type: ignore[return-value]


def engine_node(node: NodeInfo) -> EngineNode:
    return node  # type: ignore[return-value]
