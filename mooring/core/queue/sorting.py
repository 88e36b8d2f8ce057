"""The order of the active queue, from a queue sort plugin."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from mooring.framework.plugin import Plugin, QueuedPod
from mooring.framework.pod import PodInfo
from mooring.runtime.containment import CONTAINED
from mooring.runtime.runners import raised

SortKey = Callable[[QueuedPod], Any]


class _Sorted(NamedTuple):
    """What a pod was when it took its place. A heap must not see keys change, and pods do."""

    pod: PodInfo
    timestamp: float
    attempts: int


def default_order(queued: QueuedPod) -> tuple[int, float]:
    """Higher priority first, then who has waited longer."""
    return -queued.pod.priority, queued.timestamp


def sort_key_of(queue_sort: Plugin) -> SortKey:
    """Return a key that orders pods as the plugin does: its `sort_key`, or one made of `sorts_before`."""
    own: SortKey | None = getattr(queue_sort, "sort_key", None)
    return own if own is not None else sort_key_from(queue_sort.sorts_before)


def sort_key_from(sorts_before: Callable[[QueuedPod, QueuedPod], bool]) -> SortKey:
    """Return a key that compares with `sorts_before` both ways; pods that tie keep their order."""

    def compare(a: QueuedPod, b: QueuedPod) -> int:
        try:
            return -1 if sorts_before(a, b) else int(sorts_before(b, a))
        except CONTAINED as exc:
            # The queue must keep some order: the default one.
            raised("queue sort", "sorts_before", exc)
            mine, other = default_order(a), default_order(b)
            return (mine > other) - (mine < other)

    key = functools.cmp_to_key(compare)
    return lambda queued: key(_Sorted(queued.pod, queued.timestamp, queued.attempts))
