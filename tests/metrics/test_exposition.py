"""The metrics have kube-scheduler's names, types, labels, buckets and stability levels.

`kube_scheduler_v1_36.json` holds what a kube-scheduler v1.36.4 exposed after it had scheduled, refused, gated
and preempted pods on a real API server.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import Metric

from mooring.metrics import encode
from mooring.testing import make_node, make_pod
from tests.metrics.kit import Observed, Wishes, wishing

SEEN: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "kube_scheduler_v1_36.json").read_text()
)

# Named but never observed: they belong to kube-scheduler's batching.
BATCHING = {
    "scheduler_batch_attempts_total",
    "scheduler_batch_cache_flushed_total",
    "scheduler_get_node_hint_duration_seconds",
    "scheduler_store_schedule_results_duration_seconds",
}


@pytest.fixture(scope="module")
def busy() -> Observed:
    """Pods scheduled, refused, gated, held, brought back by a hint, and evicted."""
    small = {"cpu": "1", "pods": "10"}
    observed = Observed(
        [make_node("a", allocatable=small), make_node("b", allocatable=small)], plugins=[Wishes]
    )
    low = make_pod("low", requests={"cpu": "800m"})
    observed.schedule(low, make_pod("other", requests={"cpu": "800m"}))
    observed.schedule(make_pod("big", requests={"cpu": "64"}), make_pod("gated", scheduling_gates="soon"))
    observed.schedule(make_pod("held", **wishing(permit="wait")))
    observed.schedule(make_pod("urgent", requests={"cpu": "500m"}, priority=10))
    observed.cluster.apply(make_node("c", allocatable={"cpu": "2", "pods": "10"}))
    observed.cluster.advance(60)
    return observed


@pytest.fixture(scope="module")
def families(busy: Observed) -> dict[str, Metric]:
    return busy.families()


def label_names(family: Metric) -> list[str]:
    return sorted({label for sample in family.samples for label in sample.labels} - {"le"})


def buckets(family: Metric) -> list[str]:
    return list(dict.fromkeys(s.labels["le"] for s in family.samples if s.name.endswith("_bucket")))


@pytest.mark.parametrize("name", SEEN)
def test_each_metric_that_kube_scheduler_showed_is_there_and_alike(
    name: str, families: dict[str, Metric]
) -> None:
    told, family = SEEN[name], families[name]
    assert family.type == told["type"]
    assert family.documentation.startswith(f"[{told['stability']}] ")
    if name in BATCHING:
        assert family.samples == []
        return
    assert label_names(family) == told["labels"]
    assert buckets(family) == told["buckets"]


def test_the_wait_for_permission_which_kube_scheduler_shows_with_permit_plugins_only(
    families: dict[str, Metric],
) -> None:
    family = families["scheduler_permit_wait_duration_seconds"]
    assert family.type == "histogram"
    assert label_names(family) == ["result"]
    assert buckets(family) == SEEN["scheduler_scheduling_attempt_duration_seconds"]["buckets"]


def test_there_are_no_others_under_the_schedulers_prefix(families: dict[str, Metric]) -> None:
    ours = {name for name in families if name.startswith("scheduler_")}
    assert ours - set(SEEN) == {
        "scheduler_permit_wait_duration_seconds",
        # those of dynamic resource allocation, which the recorded run did not use
        "scheduler_resourceclaim_creates_total",
        "scheduler_dra_bindingconditions_allocations_total",
        "scheduler_dra_bindingconditions_wait_duration_seconds",
    }


def test_what_has_no_labels_is_there_before_anything_has_happened() -> None:
    families = Observed(nodes=0).families()
    for name in ("preemption_attempts_total", "pod_scheduled_after_flush_total"):
        assert [s.value for s in families[f"scheduler_{name}"].samples] == [0]
    for name in ("preemption_victims", "pod_scheduling_attempts", "scheduling_algorithm_duration_seconds"):
        counts = [s.value for s in families[f"scheduler_{name}"].samples]
        assert counts
        assert not any(counts)


def test_the_process_is_measured_under_the_names_that_every_client_library_uses() -> None:
    families = Observed(nodes=0).families()
    assert families["process_resident_memory_bytes"].samples[0].value > 1e6
    assert families["process_cpu_seconds_total"].samples[0].value > 0


def test_the_form_is_the_one_asked_for(busy: Observed) -> None:
    text, kind = encode(busy.registry.collect(), "")
    assert kind.startswith("text/plain; version=0.0.4")
    assert b"# TYPE scheduler_schedule_attempts_total counter\n" in text
    text, kind = encode(busy.registry.collect(), "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    assert text.endswith(b"# EOF\n")
