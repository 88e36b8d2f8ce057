"""ImageLocality: prefer nodes that need not pull the pod's images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mooring.api.objects import Container, PodSpec
from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState
from mooring.framework.nodes import IntArray, Nodes
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.plugins.arithmetic import MAX_SCORE, to_int64
from mooring.runtime.engine_nodes import engine_nodes

MEBIBYTE = 1024 * 1024
MIN_THRESHOLD = 23 * MEBIBYTE
MAX_CONTAINER_THRESHOLD = 1000 * MEBIBYTE


class ImageLocality(Plugin):
    """Scores a node by the bytes of the pod's images that it has, each scaled down by how few nodes have
    the image, so that one node with a rare image does not attract everything."""

    name = "ImageLocality"
    cache_key = CacheKey.ALL_NODES

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        view = engine_nodes(nodes)
        total = len(view.whole)
        scores = np.zeros(len(nodes), np.int64)
        any_present = False
        for name in _images(pod.spec):
            present, size, holders = view.image(normalized_image_name(name))
            if holders:
                scores += present * to_int64(size * (holders / total))
                any_present = True
        if not any_present:
            return scores
        limit = MAX_CONTAINER_THRESHOLD * len(_containers(pod.spec))
        above: IntArray = scores.clip(MIN_THRESHOLD, limit) - MIN_THRESHOLD
        return above * MAX_SCORE // (limit - MIN_THRESHOLD)


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
