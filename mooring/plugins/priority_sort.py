"""PrioritySort: higher priority first, then first come, first served."""

from __future__ import annotations

from mooring.framework.plugin import Plugin, QueuedPod


class PrioritySort(Plugin):
    """Orders the queue by priority, and equal priorities by how long they have been queued."""

    name = "PrioritySort"

    def sorts_before(self, a: QueuedPod, b: QueuedPod) -> bool:
        return self.sort_key(a) < self.sort_key(b)

    @staticmethod
    def sort_key(queued: QueuedPod) -> tuple[int, float]:
        """Return a sort key of the same order, which a heap compares without calling the plugin for each
        pair."""
        return -queued.pod.priority, queued.timestamp
