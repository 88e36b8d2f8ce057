"""Candidate nodes in the form that an extender receives."""

from __future__ import annotations

from functools import cached_property

import msgspec

from mooring.extender.calling.originals import Originals
from mooring.framework.nodes import IntArray
from mooring.runtime.engine_nodes import EngineNodes
from mooring.runtime.extender import Filtered

MOST_KEPT = 4  # a pod's attempt asks about at most a few sets of nodes


class Roll:
    """Some nodes: their names, where each stands, and a NodeList of them.

    The next replica is mostly answered like the one before, so each extender's last answers are kept with
    what they mean.
    """

    def __init__(self, nodes: EngineNodes, originals: Originals) -> None:
        self.names = list(nodes.names)
        self.rows = nodes.rows
        self.last_filtered: dict[object, tuple[bytes, Filtered]] = {}
        self.last_scores: dict[object, tuple[bytes, IntArray]] = {}
        self._nodes = nodes
        self._originals = originals

    @cached_property
    def positions(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def encoded_names(self) -> bytes:
        return msgspec.json.encode(self.names)

    @cached_property
    def node_list(self) -> bytes:
        items = b",".join(self._originals.of(info.node) for info in self._nodes)
        return b'{"metadata":{},"items":[' + items + b"]}"


class Rolls:
    """Caches recent node lists: successive pods have the same candidates, which may be many megabytes."""

    def __init__(self, originals: Originals) -> None:
        self._originals = originals
        self._kept: dict[tuple[int, int, bytes], Roll] = {}

    def of(self, nodes: EngineNodes) -> Roll:
        key = (nodes.node_version, self._originals.version, nodes.rows.tobytes())
        roll = self._kept.get(key)
        if roll is None:
            roll = Roll(nodes, self._originals)
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[key] = roll
        return roll
