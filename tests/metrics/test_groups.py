"""Metrics of pod groups, under kube-scheduler's names."""

from __future__ import annotations

from mooring.config import from_object
from tests.core.groups.group_kit import GATES, gang, gpu_node
from tests.metrics.kit import Observed

ATTEMPTS = "scheduler_podgroup_schedule_attempts_total"
DURATION = "scheduler_podgroup_scheduling_attempt_duration_seconds"
ALGORITHM = "scheduler_podgroup_scheduling_algorithm_duration_seconds"


def observed(*gates: str) -> Observed:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "featureGates": dict.fromkeys(gates, True),
    }
    return Observed(nodes=0, config=from_object(config))


def test_attempts_at_groups_by_result() -> None:
    it = observed(*GATES)
    it.cluster.apply(gpu_node("n0"), *gang("train", 2))
    it.cluster.schedule()
    it.cluster.apply(gpu_node("n1"))
    it.cluster.schedule()
    families = it.families()
    attempts = {(s.labels["result"], s.labels["profile"]): s.value for s in families[ATTEMPTS].samples}
    assert attempts == {("unschedulable", "default-scheduler"): 1, ("scheduled", "default-scheduler"): 1}
    counts = [s.value for s in families[DURATION].samples if s.name.endswith("_count")]
    assert counts == [1, 1]
    assert [s.value for s in families[ALGORITHM].samples if s.name.endswith("_count")] == [2]
    assert (families[ATTEMPTS].type, families[DURATION].type, families[ALGORITHM].type) == (
        "counter",
        "histogram",
        "histogram",
    )


def test_they_are_there_only_with_the_gate() -> None:
    assert not {ATTEMPTS, DURATION, ALGORITHM} & observed().families().keys()
    assert [s.value for s in observed(*GATES).families()[ALGORITHM].samples if s.name.endswith("_count")] == [
        0
    ]
