"""Nodes as plugins see them: one node, or many nodes as NumPy columns.

A `Nodes` is a view: of all nodes, of some, or of some as they would be with pods added or removed (preemption
and nominated pods). A plugin computes on the columns and answers for each row, whichever view it was called
with.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mooring.api.objects import Node, Taint
from mooring.framework.pod import PodInfo, Resources, Shape
from mooring.framework.status import Status

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
T_co = TypeVar("T_co", covariant=True)


class NodeInfo(Protocol):
    """One node: its object, the pods on it, and the sums of their requests."""

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
    def pod_count(self) -> int: ...
    @property
    def allowed_pods(self) -> int: ...
    @property
    def allocatable(self) -> Resources: ...
    @property
    def requested(self) -> Resources: ...
    @property
    def free(self) -> Resources:
        """`allocatable` minus `requested`."""
        ...


class Ids(NamedTuple, Generic[T_co]):
    """A column of interned values: `values[ids[i]]` is the value of row i; id -1: it has none."""

    ids: npt.NDArray[np.int32]
    values: Sequence[T_co]


class PodPredicate(Hashable, Protocol):
    """A condition on a pod's shape. Matching pods are counted per node as they come and go; equal predicates
    share one count."""

    @property
    def count_terminating(self) -> bool:
        """Whether pods that are being deleted count."""
        ...

    def matches(self, shape: Shape) -> int:
        """Whether a pod of the shape counts; or, as a number of 0 or more, how many times it does."""
        ...


class Columns(Protocol):
    """Amounts by resource name: `columns["cpu"]` is one number per row (zeros for an unknown resource)."""

    def __getitem__(self, resource: str) -> IntArray: ...


class Nodes(Protocol):
    """Many nodes, one per row."""

    def __len__(self) -> int: ...
    def __getitem__(self, i: int) -> NodeInfo: ...
    def __iter__(self) -> Iterator[NodeInfo]: ...

    @property
    def names(self) -> Sequence[str]: ...
    def index(self, name: str) -> int | None:
        """Return the row of the node with this name, or None."""
        ...

    @property
    def allocatable(self) -> Columns: ...
    @property
    def requested(self) -> Columns: ...
    @property
    def free(self) -> Columns: ...
    @property
    def pod_count(self) -> IntArray: ...
    @property
    def allowed_pods(self) -> IntArray: ...
    @property
    def unschedulable(self) -> BoolArray: ...
    @property
    def taints(self) -> Ids[tuple[Taint, ...]]: ...
    def label(self, key: str) -> Ids[str]:
        """Return the values of one label."""
        ...

    def count(self, predicate: PodPredicate) -> IntArray:
        """Return the number of matching pods on each row."""
        ...


class Verdicts(NamedTuple):
    """The answer of filter_nodes: a code for each row, 0 where the node passes; `statuses` has the others."""

    codes: npt.NDArray[np.int32]
    statuses: Mapping[int, Status]


def refuse(rows: BoolArray, status: Status) -> Verdicts:
    """Return verdicts that reject these rows with one status."""
    return Verdicts(rows.astype(np.int32), {1: status})
