"""kube-scheduler's metrics: its names, labels and buckets, about this scheduler."""

from mooring.metrics.collector import SchedulerCollector
from mooring.metrics.exposition import encode, make_registry
from mooring.metrics.scheduler_metrics import SchedulerMetrics

__all__ = ["SchedulerCollector", "SchedulerMetrics", "encode", "make_registry"]
