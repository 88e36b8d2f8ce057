"""For those who write plugins: objects in a line, a cluster in memory, a clock to turn, and check_plugin."""

from mooring.config.enabling import config_with
from mooring.testing.check_plugin import check_plugin
from mooring.testing.clock import VirtualClock
from mooring.testing.cluster import Cluster, Event
from mooring.testing.nodes import make_node
from mooring.testing.pods import affinity_term, make_pod, spread_constraint
from mooring.testing.scheduler_cluster import make_cluster
from mooring.testing.selectors import label_selector, node_term, taint, toleration

__all__ = [
    "Cluster",
    "Event",
    "VirtualClock",
    "affinity_term",
    "check_plugin",
    "config_with",
    "label_selector",
    "make_cluster",
    "make_node",
    "make_pod",
    "node_term",
    "spread_constraint",
    "taint",
    "toleration",
]
