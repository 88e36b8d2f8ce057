"""Rows as they would be with some pods added or removed.

One view asks the question for many nodes at once: each row has a list of pods that may or may not be
there, and `set_present` switches the j-th pod of chosen rows on or off. Preemption uses it to try all
candidate nodes together; nominated pods use it to appear on their nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mooring.framework.nodes import BoolArray, IntArray, NodeInfo, PodPredicate
from mooring.framework.pod import PodInfo, Shape
from mooring.state.node_info import HypotheticalNode
from mooring.state.table import NodeTable
from mooring.state.view import NodeView


class WhatIf(NodeView):
    """`removable[k]` are pods that are on row k now, `addable[k]` pods that are not; all start as they are
    in the table, so that the view begins as the plain truth."""

    def __init__(
        self,
        table: NodeTable,
        rows: npt.NDArray[np.intp],
        removable: Sequence[Sequence[PodInfo]],
        addable: Sequence[Sequence[PodInfo]],
    ) -> None:
        super().__init__(table, rows)
        self.pods = [[*r, *a] for r, a in zip(removable, addable, strict=True)]
        width = max((len(pods) for pods in self.pods), default=0)
        shapes: dict[Shape | None, int] = {None: 0}  # index 0 pads the short rows
        self._shape_ids = np.zeros((len(rows), width), np.intp)
        self._there = np.zeros((len(rows), width), np.bool_)
        for k, pods in enumerate(self.pods):
            self._shape_ids[k, : len(pods)] = [shapes.setdefault(p.shape, len(shapes)) for p in pods]
            self._there[k, : len(removable[k])] = True
        self._shapes: list[Shape] = [shape for shape in shapes if shape is not None]
        for shape in self._shapes:  # may add lines for resources not seen before, so first of all
            table.vector(shape)
        vectors = [table.vector(shape) for shape in self._shapes]
        blank = np.zeros(len(table.usage.data), np.int64)
        self._vectors = np.stack([blank, *vectors], axis=1)
        self.present = self._there.copy()
        self._usage: IntArray = table.usage.data[:, rows]

    @property
    def width(self) -> int:
        return self.present.shape[1]

    def has(self, j: int) -> BoolArray:
        """The rows that have a j-th pod."""
        found: BoolArray = self._shape_ids[:, j] != 0
        return found

    def set_present(self, j: int, rows: BoolArray, present: bool) -> None:
        """Switch the j-th pod of the chosen rows on or off."""
        change = rows & (self.present[:, j] != present) & self.has(j)
        vectors = self._vectors[:, self._shape_ids[change, j]]
        if present:
            self._usage[:, change] += vectors
        else:
            self._usage[:, change] -= vectors
        self.present[change, j] = present

    @property
    def usage(self) -> IntArray:
        return self._usage

    @property
    def hypothetical(self) -> bool:
        return True

    def part(self, keep: npt.NDArray[np.intp]) -> WhatIf:
        """The same question for some of the rows."""
        part = WhatIf.__new__(WhatIf)
        NodeView.__init__(part, self.table, self.rows[keep])
        part.pods = [self.pods[k] for k in keep]
        part._shapes, part._vectors = self._shapes, self._vectors
        part._shape_ids, part._there = self._shape_ids[keep], self._there[keep]
        part.present, part._usage = self.present[keep], self._usage[:, keep]
        return part

    def _matching(self, predicate: PodPredicate) -> BoolArray:
        by_shape = np.array([False, *(predicate.matches(shape) for shape in self._shapes)])
        matching: BoolArray = by_shape[self._shape_ids]
        return matching

    def delta(self, predicate: PodPredicate) -> IntArray:
        return self._difference(self._matching(predicate))

    def _difference(self, matching: BoolArray) -> IntArray:
        now: IntArray = (matching & self.present).sum(axis=1)
        real: IntArray = (matching & self._there).sum(axis=1)
        return now - real

    def count(self, predicate: PodPredicate) -> IntArray:
        matching = self._matching(predicate)
        if not predicate.count_terminating:
            ending = np.zeros_like(matching)
            for k, pods in enumerate(self.pods):
                ending[k, : len(pods)] = [pod.terminating for pod in pods]
            matching &= ~ending
        return super().count(predicate) + self._difference(matching)

    def __getitem__(self, i: int) -> NodeInfo:
        real = self.table.nodes[self.rows[i]]
        mine = self.pods[i]
        uids = {pod.uid for pod in mine}
        pods = [pod for pod in real.pods if pod.uid not in uids]
        pods += [pod for pod, present in zip(mine, self.present[i], strict=False) if present]
        return HypotheticalNode(real, pods, self._usage[:, i])

    def changes(self, i: int) -> tuple[Sequence[PodInfo], Sequence[PodInfo]]:
        """The pods that are not there but really are, and those that are there but really are not."""
        removed, added = [], []
        for pod, there, present in zip(self.pods[i], self._there[i], self.present[i], strict=False):
            if there and not present:
                removed.append(pod)
            elif present and not there:
                added.append(pod)
        return removed, added
