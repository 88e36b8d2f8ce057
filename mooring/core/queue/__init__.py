"""The scheduling queue: which pod is tried next, and what brings a refused one back."""

from mooring.core.queue.queued_pod import Place, QueuedPodInfo
from mooring.core.queue.scheduling_queue import SchedulingQueue
from mooring.core.queue.sorting import SortKey, sort_key_of

__all__ = ["Place", "QueuedPodInfo", "SchedulingQueue", "SortKey", "sort_key_of"]
