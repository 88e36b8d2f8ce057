"""ImageLocality: prefer nodes that need not pull the pod's images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.objects import Container, PodSpec
from mooring.framework.arithmetic import MAX_SCORE
from mooring.framework.cycle_state import CycleState
from mooring.framework.nodes import IntArray, Nodes
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo

MEBIBYTE = 1024 * 1024
MIN_THRESHOLD = 23 * MEBIBYTE
MAX_CONTAINER_THRESHOLD = 1000 * MEBIBYTE


class _Scored(NamedTuple):
    """The last scores of a shape, and what they hold for. Where no node has any of the images, all scores
    are 0 and `rows` is None: which rows they are does not matter."""

    node_version: int
    rows: npt.NDArray[np.intp] | None
    scores: IntArray

    def holds_for(self, nodes: Nodes) -> bool:
        if self.node_version != nodes.node_version or len(self.scores) != len(nodes):
            return False
        return self.rows is None or np.array_equal(self.rows, nodes.rows)


class ImageLocality(Plugin):
    """Scores a node by the bytes of the pod's images that it has, each scaled down by how few nodes have
    the image, so that one node with a rare image does not attract everything."""

    name = "ImageLocality"

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        # The same object while nothing changes: who compares by identity need not look inside.
        last: _Scored | None = state.memory.get(self)
        if last is None or not last.holds_for(nodes):
            last = state.memory[self] = _score(pod.spec, nodes)
        return last.scores


def _score(spec: PodSpec, nodes: Nodes) -> _Scored:
    total = len(nodes.whole)
    scores = np.zeros(len(nodes), np.int64)
    rows = None
    for name in _images(spec):
        present, size, holders = nodes.image(normalized_image_name(name))
        if holders:
            scores += present * int(size * (holders / total))
            rows = nodes.rows
    if rows is not None:
        limit = MAX_CONTAINER_THRESHOLD * len(_containers(spec))
        above = np.maximum(np.minimum(scores, limit) - MIN_THRESHOLD, 0)
        scores = above * MAX_SCORE // (limit - MIN_THRESHOLD)
    scores.flags.writeable = False
    return _Scored(nodes.node_version, rows, scores)


def _images(spec: PodSpec) -> Iterator[str]:
    for container in _containers(spec):
        yield container.image
    for volume in spec.volumes:
        if volume.image is not None:
            yield volume.image.reference


def _containers(spec: PodSpec) -> Sequence[Container]:
    return [*spec.init_containers, *spec.containers]


def normalized_image_name(name: str) -> str:
    """The name as nodes report it: with a tag, ":latest" where none is given."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
