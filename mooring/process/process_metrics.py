"""Metrics of the process that runs a scheduler: which build it is, and whether it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mooring.process.version import version_info

_LABELS = {
    "build_date": "buildDate",
    "compiler": "compiler",
    "git_commit": "gitCommit",
    "git_tree_state": "gitTreeState",
    "git_version": "gitVersion",
    "go_version": "goVersion",
    "major": "major",
    "minor": "minor",
    "platform": "platform",
}


class ProcessMetrics(Collector):
    """`lease` is the name of the Lease for leader election; empty without leader election."""

    def __init__(self, leads: Callable[[], bool], lease: str | None) -> None:
        self._leads = leads
        self._lease = lease

    def collect(self) -> Iterator[Metric]:
        version = version_info()
        build = GaugeMetricFamily(
            "kubernetes_build_info",
            "[ALPHA] Always 1: which Kubernetes this behaves like, and which build it is.",
            labels=tuple(_LABELS),
        )
        build.add_metric([version[field] for field in _LABELS.values()], 1)
        yield build
        if self._lease is not None:
            leading = GaugeMetricFamily(
                "leader_election_master_status",
                "[ALPHA] 1 where this process leads, 0 where it stands by; 'name' is the lease.",
                labels=("name",),
            )
            leading.add_metric([self._lease], self._leads())
            yield leading
