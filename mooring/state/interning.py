"""Columns of interned values, and the images that nodes hold."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from mooring.framework.nodes import BoolArray
from mooring.state.columns import Column

if TYPE_CHECKING:
    from mooring.state.node_info import NodeRow

V = TypeVar("V", bound=Hashable)


class InternedColumn(Generic[V]):
    """A column of small integers that stand for values; equal values have equal ids, -1 is "none"."""

    __slots__ = ("_ids", "column", "values")

    def __init__(self, capacity: int) -> None:
        self.column = Column(capacity, np.int32, fill=-1)
        self.values: list[V] = []
        self._ids: dict[V, int] = {}

    @property
    def ids(self) -> npt.NDArray[np.int32]:
        return self.column.data

    def set(self, row: int, value: V | None) -> None:
        self.column.data[row] = -1 if value is None else self.id_of(value)

    def id_of(self, value: V) -> int:
        number = self._ids.get(value)
        if number is None:
            number = self._ids[value] = len(self.values)
            self.values.append(value)
        return number

    def compact(self, rows: int) -> None:
        """Drop values that none of the first `rows` rows has, once they are the majority. Ids change, which
        readers expect only when a node changes."""
        if len(self.values) <= 2 * rows + 64:
            return
        used, numbers = np.unique(self.ids[:rows], return_inverse=True)
        offset = 1 if len(used) and used[0] < 0 else 0  # the rows without a value sort first
        self.values = [self.values[i] for i in used[offset:].tolist()]
        self._ids = {value: i for i, value in enumerate(self.values)}
        self.ids[:rows] = numbers - offset


class Images:
    """Which nodes hold which image. An image's size is what its first reporter said, for as long as any
    node holds it, as in kube-scheduler's cache."""

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[int, set[NodeRow]]] = {}

    def add(self, info: NodeRow) -> None:
        for image in info.node.status.images:
            for name in image.names:
                entry = self._by_name.get(name)
                if entry is None:
                    entry = self._by_name[name] = (image.size_bytes, set())
                entry[1].add(info)

    def remove(self, info: NodeRow) -> None:
        for image in info.node.status.images:
            for name in image.names:
                _, holders = self._by_name.get(name, (0, set()))
                holders.discard(info)
                if not holders:
                    self._by_name.pop(name, None)

    def find(self, name: str, rows: int) -> tuple[BoolArray, int, int]:
        """Which of the table's rows hold an image, its size, and how many hold it."""
        held = np.zeros(rows, np.bool_)
        size, holders = self._by_name.get(name, (0, set()))
        if holders:
            held[[info.row for info in holders]] = True
        return held, size, len(holders)
