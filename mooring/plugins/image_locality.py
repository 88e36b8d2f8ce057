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
    """The last scores of a shape, and what they hold for."""

    node_version: int
    rows: npt.NDArray[np.intp]
    scores: IntArray


class ImageLocality(Plugin):
    """Scores a node by the bytes of the pod's images that it has, each scaled down by how few nodes have
    the image, so that one node with a rare image does not attract everything."""

    name = "ImageLocality"

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        rows = nodes.rows
        last: _Scored | None = state.memory.get(self)
        if last is None or last.node_version != nodes.node_version or not np.array_equal(last.rows, rows):
            scores = _scores(pod.spec, nodes)
            last = state.memory[self] = _Scored(nodes.node_version, rows, scores)
        # Always the same object while nothing changes: who compares by identity need not look inside.
        return last.scores


def _scores(spec: PodSpec, nodes: Nodes) -> IntArray:
    total = len(nodes.whole)
    held = np.zeros(len(nodes), np.int64)
    known = [nodes.image(normalized_image_name(name)) for name in _images(spec)]
    for present, size, holders in known:
        if holders:
            held += present * int(size * (holders / total))
    if any(holders for _, _, holders in known):
        limit = MAX_CONTAINER_THRESHOLD * len(_containers(spec))
        above = np.maximum(np.minimum(held, limit) - MIN_THRESHOLD, 0)
        held = above * MAX_SCORE // (limit - MIN_THRESHOLD)
    held.flags.writeable = False
    return held


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
