"""DynamicResources for pods without claims, and what parity with kube-scheduler does not show: queueing
hints, writes that conflict, failures after the choice, schedulers that share devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.decode import from_dict
from mooring.api.devices import Allocation, ResourceClaim
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.api.times import format_time
from mooring.cel.syntax import parse
from mooring.config import from_object
from mooring.core.memory import MemoryClient, MemoryCluster
from mooring.core.queue import Place
from mooring.core.scheduler import Scheduler
from mooring.framework.status import Code, error, unschedulable
from mooring.plugins.dynamic_resources.device_selectors import paths_read
from mooring.plugins.dynamic_resources.dynamic_resources import DynamicResources
from mooring.runtime.engine_state import EngineState
from tests.plugins.plugin_kit import Cluster, make, make_node, make_pod


def test_it_takes_part_where_kube_scheduler_does() -> None:
    assert DynamicResources.extension_points == {
        "preEnqueue",
        "preFilter",
        "filter",
        "postFilter",
        "score",
        "reserve",
        "preBind",
    }


def test_a_pod_without_claims_passes_and_post_filter_has_nothing_to_do() -> None:
    cluster = Cluster([make_node("a"), make_node("b")])
    plugin, pod, state = make(DynamicResources), cluster.info(make_pod()), EngineState()
    assert plugin.pre_enqueue(pod) is None
    skipped = plugin.pre_filter(state, pod, cluster.nodes)
    assert skipped is not None
    assert skipped.code is Code.SKIP
    state.skip_filter = frozenset({plugin.name})  # as the framework notes it
    assert plugin.post_filter(state, pod, {}) == unschedulable("no new claims to deallocate")
    assert cluster.score(plugin, make_pod()) == [0, 0]
    assert cluster.normalize(plugin, [0, 0]) == [0, 0]


def test_post_filter_fails_when_the_cycle_ended_before_pre_filter() -> None:
    pod = Cluster([]).info(make_pod())
    assert make(DynamicResources).post_filter(EngineState(), pod, {}) == error("not found")


# ---- a cluster in memory


def device_class(name: str = "gpu", **spec: Any) -> KubeObject:
    return _object("DeviceClass", {"name": name}, spec)


def resource_slice(node: str, devices: int = 1, **device: Any) -> KubeObject:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    found = [{"name": f"gpu-{i}", **device} for i in range(devices)]
    return _object(
        "ResourceSlice",
        {"name": f"{node}-gpu"},
        {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": found},
    )


def claim(name: str = "gpu", **metadata: Any) -> ResourceClaim:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}
    meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1", **metadata}
    found = _object("ResourceClaim", meta, {"devices": {"requests": [request]}})
    assert isinstance(found, ResourceClaim)
    return found


def _object(kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> KubeObject:
    return from_dict({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})


def claiming(name: str, claim_name: str = "gpu", **spec: Any) -> Pod:
    pod = make_pod(resourceClaims=[{"name": "gpu", "resourceClaimName": claim_name}], **spec)
    metadata = msgspec.structs.replace(pod.metadata, name=name, uid=name)
    return msgspec.structs.replace(pod, metadata=metadata)


def cluster_of(*objects: KubeObject, config: dict[str, Any] | None = None) -> MemoryCluster:
    loaded = None if config is None else from_object(config, source="test")
    cluster = MemoryCluster(Scheduler(loaded, clock=lambda: NOW, pick=lambda n: 0))
    for obj in objects:
        cluster.apply(obj)
    return cluster


NOW = 1_900_000_000.0


def claim_of(cluster: MemoryCluster, name: str = "gpu") -> ResourceClaim:
    found = cluster.scheduler.store.get(ResourceClaim, name, "default")
    assert found is not None
    return found


def node_of(cluster: MemoryCluster, pod: str) -> str:
    return cluster.pods[pod].spec.node_name


def waiting(cluster: MemoryCluster) -> list[str]:
    """The pods that wait for an event."""
    return [each.pod.name for each in cluster.scheduler.queue if each.place is Place.UNSCHEDULABLE]


def held(cluster: MemoryCluster, *claims: str) -> list[tuple[str, str]]:
    """The devices of these claims."""
    found = [claim_of(cluster, name).allocation for name in claims]
    return [(r.pool, r.device) for a in found if a is not None for r in a.devices.results]


def test_an_allocation_is_written_with_finalizer_and_reservation() -> None:
    cluster = cluster_of(make_node("a"), device_class(), resource_slice("a"), claim(), claiming("p"))
    cluster.run()
    written = claim_of(cluster)
    assert node_of(cluster, "p") == "a"
    assert written.metadata.finalizers == ["resource.kubernetes.io/delete-protection"]
    assert [(user.resource, user.name, user.uid) for user in written.status.reserved_for] == [
        ("pods", "p", "p")
    ]
    assert held(cluster, "gpu") == [("a", "gpu-0")]
    assert written.allocation is not None
    assert written.allocation.allocation_timestamp == format_time(NOW)


def test_a_pod_may_have_more_claims_than_the_interpreter_nests_calls() -> None:
    names = [f"gpu-{i}" for i in range(600)]
    cluster = cluster_of(device_class(), make_node("n1"), resource_slice("n1", 600), *map(claim, names))
    claims = [{"name": name, "resourceClaimName": name} for name in names]
    cluster.apply(make_pod(resourceClaims=claims))
    cluster.run()
    assert [pod.spec.node_name for pod in cluster.pods.values()] == ["n1"]
    assert len(set(held(cluster, *names))) == 600


def test_a_device_is_allocated_once_and_given_out_again_when_its_claim_is_deallocated() -> None:
    cluster = cluster_of(make_node("a"), device_class(), resource_slice("a"), claim("x"), claim("y"))
    cluster.apply(claiming("p", "x"))
    cluster.apply(claiming("q", "y"))
    cluster.run()
    assert (node_of(cluster, "p"), node_of(cluster, "q")) == ("a", "")
    freed = claim_of(cluster, "x")
    status = msgspec.structs.replace(freed.status, allocation=None, reserved_for=[])
    cluster.scheduler.clock = lambda: NOW + 60
    cluster.apply(msgspec.structs.replace(freed, status=status))
    cluster.scheduler.tick()
    cluster.run()
    assert node_of(cluster, "q") == "a"


@pytest.mark.parametrize(
    ("change", "woken"),
    [
        (lambda cluster: cluster.apply(resource_slice("a", 2)), True),
        (lambda cluster: cluster.apply(device_class(selectors=[])), True),
        (lambda cluster: cluster.apply(claim("z")), False),
        (lambda cluster: cluster.apply(claim("y", labels={"a": "b"})), False),
    ],
)
def test_what_wakes_a_pod_that_waits_for_devices(
    change: Callable[[MemoryCluster], None], woken: bool
) -> None:
    cluster = cluster_of(make_node("a"), device_class(), resource_slice("a"), claim("x"), claim("y"))
    cluster.apply(claiming("p", "x"))
    cluster.apply(claiming("q", "y"))
    cluster.run()
    assert waiting(cluster) == ["q"]
    change(cluster)
    assert waiting(cluster) == ([] if woken else ["q"])


def test_a_pod_is_gated_until_its_claim_is_there() -> None:
    cluster = cluster_of(make_node("a"), device_class(), resource_slice("a"), claiming("p"))
    assert cluster.run() == 0
    cluster.apply(claim())
    cluster.run()
    assert node_of(cluster, "p") == "a"


def test_two_profiles_share_the_devices() -> None:
    profiles = [{"schedulerName": name} for name in ("default-scheduler", "other")]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
    }
    cluster = cluster_of(
        make_node("a"), device_class(), resource_slice("a"), claim("x"), claim("y"), config=config
    )
    cluster.apply(claiming("p", "x"))
    cluster.apply(claiming("q", "y", schedulerName="other"))
    first, second = cluster.scheduler.schedule_one(), cluster.scheduler.schedule_one()
    assert first is not None
    assert second is not None
    assert (first.result, second.result) == ("scheduled", "unschedulable")


class Interfering(MemoryClient):
    """Another client changes the claim before each of the first writes."""

    def __init__(self, cluster: MemoryCluster, conflicts: int, **status: Any) -> None:
        super().__init__(cluster)
        self.left = conflicts
        self.status = status

    async def patch(self, obj: Any, patch: dict[str, Any], subresource: str = "") -> Any:
        if self.left and isinstance(obj, ResourceClaim):
            self.left -= 1
            current = self._current(obj)
            version = str(int(current.metadata.resource_version) + 1)
            metadata = msgspec.structs.replace(current.metadata, resource_version=version)
            status = msgspec.structs.replace(current.status, **self.status)
            self._cluster.apply(msgspec.structs.replace(current, metadata=metadata, status=status))
        return await super().patch(obj, patch, subresource)


@pytest.mark.parametrize(("conflicts", "bound"), [(4, True), (5, False)])
def test_conflicting_writes_are_retried(conflicts: int, bound: bool) -> None:
    cluster = cluster_of(make_node("a"), device_class(), resource_slice("a"), claim(), claiming("p"))
    cluster.scheduler.client = Interfering(cluster, conflicts)
    cluster.run(limit=1)
    assert bool(node_of(cluster, "p")) is bound
    assert bool(held(cluster, "gpu")) is bound


def test_a_claim_that_was_allocated_elsewhere_fails_the_binding_and_frees_the_devices() -> None:
    cluster = cluster_of(make_node("a"), device_class(), resource_slice("a"), claim("x"), claim("y"))
    cluster.scheduler.client = Interfering(cluster, 1, allocation=Allocation())
    cluster.apply(claiming("p", "x"))
    cluster.run(limit=1)
    condition = cluster.pods["p"].status.conditions[0]
    assert condition.reason == "SchedulerError"
    assert condition.message.endswith("claim default/x got allocated elsewhere in the meantime")
    cluster.apply(claiming("q", "y"))
    cluster.run(limit=1)
    assert held(cluster, "y") == [("a", "gpu-0")]


def test_a_selector_that_does_not_compile_fails_the_pod_and_nothing_else() -> None:
    broken = device_class("gpu", selectors=[{"cel": {"expression": "device."}}])
    cluster = cluster_of(make_node("a"), broken, resource_slice("a"), claim(), claiming("p"))
    cluster.run(limit=1)
    message = cluster.pods["p"].status.conditions[0].message
    assert message.startswith(
        'running "DynamicResources" filter plugin: class gpu: selector #0: CEL compile error: '
    )
    cluster.apply(make_pod())
    cluster.run(limit=1)


def message_of(cluster: MemoryCluster, pod: str) -> str:
    return cluster.pods[pod].status.conditions[0].message


def test_a_class_that_is_deleted_in_between_stops_pods_until_it_is_back() -> None:
    cluster = cluster_of(
        make_node("a"), device_class(), resource_slice("a", 2), claim("x"), claiming("p", "x")
    )
    cluster.run(limit=1)
    assert node_of(cluster, "p") == "a"
    cluster.delete(device_class())
    cluster.apply(claim("y"))
    cluster.apply(claiming("q", "y"))
    cluster.run(limit=1)
    assert message_of(cluster, "q") == (
        "0/1 nodes are available: request gpu: device class gpu does not exist. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    cluster.apply(device_class())
    cluster.run(limit=1)
    assert held(cluster, "y") == [("a", "gpu-1")]


def test_a_slice_with_duplicated_devices_makes_its_pool_unusable() -> None:
    device = {"name": "gpu-0"}
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "a", "pool": pool, "devices": [device, device]}
    duplicated = _object("ResourceSlice", {"name": "a-gpu"}, spec)
    cluster = cluster_of(make_node("a"), device_class(), duplicated, claim(), claiming("p"))
    cluster.run(limit=1)
    assert message_of(cluster, "p") == (
        "0/1 nodes are available: 1 invalid resource pools were encountered. still not schedulable, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    cluster.apply(make_node("b"))
    cluster.apply(resource_slice("b"))
    cluster.run(limit=1)
    assert node_of(cluster, "p") == "b"


def test_a_claim_that_was_made_for_another_pod_gates_the_pod() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "other", "uid": "other", "controller": True}
    pod = make_pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "template"}])
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gpu"}]}
    pod = msgspec.structs.replace(pod, status=msgspec.convert(status, type(pod.status)))
    others = claim(ownerReferences=[owner])
    cluster = cluster_of(make_node("a"), device_class(), resource_slice("a"), others, pod)
    assert cluster.run() == 0
    (queued,) = cluster.scheduler.queue
    assert queued.place is Place.UNSCHEDULABLE
    assert queued.gated


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["add", "free"])), max_size=12))
def test_no_device_is_ever_held_twice(steps: list[tuple[int, str]]) -> None:
    cluster = cluster_of(make_node("a"), make_node("b"), device_class())
    for node in ("a", "b"):
        cluster.apply(resource_slice(node, 2))
    names: list[str] = []
    for i, (count, action) in enumerate(steps):
        if action == "add":
            for j in range(count):
                name = f"c{i}-{j}"
                names.append(name)
                cluster.apply(claim(name))
                cluster.apply(claiming(f"p{i}-{j}", name))
        elif names:
            freed = claim_of(cluster, names.pop(0))
            cluster.delete(freed)
        cluster.run()
        devices = held(cluster, *names)
        assert len(devices) == len(set(devices))


# ---- what selectors read


@pytest.mark.parametrize(
    ("expression", "paths"),
    [
        ('device.driver == "a"', [("driver", "", "")]),
        (
            'device.attributes["d"].x == 1 && has(device.capacity.d.y)',
            [("attributes", "d", "x"), ("capacity", "d", "y")],
        ),
        ('device.attributes["d"].?x.orValue(1) == 1', [("attributes", "d", "x")]),
        ('"x" in device.attributes["d"]', None),
        ("device.attributes[device.driver].x == 1", None),
        ('cel.bind(x, device.attributes["d"], x.y == 1)', None),
        ("[1].exists(device, device.driver == 1)", None),
        ("1 == 1", None),
    ],
)
def test_what_a_selector_reads(expression: str, paths: list[tuple[str, str, str]] | None) -> None:
    found = paths_read(parse(expression))
    assert (None if found is None else list(found)) == paths
