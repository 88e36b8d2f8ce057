"""The metrics of dynamic resource allocation, as kube-scheduler has them."""

from __future__ import annotations

from collections.abc import Callable

from mooring.api.meta import KubeObject
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.metrics import SchedulerMetrics, make_registry
from tests.plugins.plugin_kit import make_node, make_pod
from tests.plugins.test_dynamic_resources import claim, claiming, device_class, resource_slice

PROFILE = {"profile": "default-scheduler", "driver": "gpu.example.com", "status": "success"}


def observed(*objects: KubeObject) -> Callable[..., float | None]:
    metrics = SchedulerMetrics()
    scheduler = Scheduler(clock=lambda: 1_900_000_000.0, pick=lambda n: 0, observer=metrics)
    cluster = MemoryCluster(scheduler)
    for obj in (make_node("a"), device_class(), *objects):
        cluster.apply(obj)
    cluster.run()
    return make_registry(metrics, scheduler).get_sample_value


def test_claims_made_for_extended_resources_are_counted() -> None:
    resource = "deviceclass.resource.kubernetes.io/gpu"
    sample = observed(resource_slice("a"), make_pod("train", {resource: "1"}))
    assert sample("scheduler_resourceclaim_creates_total", {"status": "success"}) == 1


def test_waits_for_binding_conditions_are_counted_by_driver() -> None:
    slow = resource_slice("a", bindingConditions=["ready"], bindingFailureConditions=["failed"])
    sample = observed(slow, claim(), claiming("train"))
    assert sample("scheduler_dra_bindingconditions_allocations_total", PROFILE) == 1
    assert sample("scheduler_dra_bindingconditions_wait_duration_seconds_count", PROFILE) == 1
