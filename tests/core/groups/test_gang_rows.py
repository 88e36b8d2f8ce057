"""Gangs through what happens to a cluster: order, wake-up, and nodes that disappear in the middle."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from mooring.core.effects import Bind, Prepare
from mooring.core.memory import run_now
from mooring.framework import PodInfo, Status
from mooring.plugins.coscheduling import Coscheduling
from mooring.plugins.gang_scheduling import GangScheduling
from mooring.testing.scheduler_cluster import SchedulerCluster
from tests.core.groups.group_kit import (
    bound,
    cluster_with,
    condition,
    coscheduling_cluster,
    gang,
    gpu_node,
    gpu_nodes,
    gpu_pod,
    labelled_group,
    labelled_pods,
    members,
    message,
    pod_group,
)


def attempts(cluster: SchedulerCluster, pod: str) -> int:
    return sum(decision.pod == f"default/{pod}" for decision in cluster.decisions)


# ---- all or nothing


def test_five_of_ten_start_in_one_cycle_and_the_condition_never_goes_back() -> None:
    cluster = cluster_with(*gpu_nodes(5))
    cluster.apply(*gang("train", 10, min_count=5))
    cluster.schedule()
    assert sorted(bound(cluster)) == [f"train-{i}" for i in range(5)]
    assert [attempts(cluster, f"train-{i}") for i in range(10)] == [1] * 10
    for i in range(5, 10):
        assert message(cluster, f"train-{i}").startswith("0/5 nodes are available: 5 Insufficient")
    assert condition(cluster, "train") == ("True", "Scheduled", "")
    cluster.delete("node/n0", "pod/train-0", "pod/train-1")
    cluster.advance(600)
    assert condition(cluster, "train") == ("True", "Scheduled", "")


@pytest.mark.parametrize("spare", [0, 1])
def test_a_node_that_goes_between_plan_and_commit_has_the_gang_replanned_at_once(spare: int) -> None:
    cluster = cluster_with(*gpu_nodes(3 + spare))
    cluster.apply(*gang("train", 3))
    scheduler = cluster.scheduler
    decisions = [scheduler.schedule_one() for _ in range(3)]
    assert [decision.result for decision in decisions if decision is not None] == ["scheduled"] * 3
    effects = scheduler.take_effects()
    assert [type(effect) for effect in effects if isinstance(effect, Prepare | Bind)] == [Prepare] * 3
    lost = next(effect.cycle.node_name for effect in effects if isinstance(effect, Prepare))
    cluster.delete(f"node/{lost}")
    for effect in effects:
        if isinstance(effect, Prepare):
            scheduler.bindings.groups.prepared(effect.cycle, run_now(effect.cycle.prepare()))
    cluster.schedule()  # without any time passing
    assert len(bound(cluster)) == (3 if spare else 0)
    assert cluster.scheduler.cluster.assumed_count() == 0


def test_an_incomplete_gang_keeps_its_room_and_is_reported_once() -> None:
    cluster = cluster_with(*gpu_nodes(3))
    cluster.apply(*gang("train", 3))
    cluster.schedule()
    lost = bound(cluster)["train-1"]
    cluster.delete("pod/train-1", f"node/{lost}")
    cluster.apply(*members("train", 1, start=1))
    cluster.advance(300)
    assert sorted(bound(cluster)) == ["train-0", "train-2"]
    (event,) = cluster.events("podgroup/train")
    note = "2 of at least 3 pods are scheduled, and there is no room for more"
    assert (event.type, event.reason, event.note) == ("Warning", "GangIncomplete", note)
    cluster.apply(gpu_pod("rival", priority=5, preemptionPolicy="Never"), gpu_node("new"))
    cluster.schedule()
    assert bound(cluster)["train-1"] == "new"
    assert "rival" not in bound(cluster)


def test_an_incomplete_gang_is_evicted_after_its_grace_period_if_configured() -> None:
    cluster = cluster_with(*gpu_nodes(3), gang_args={"partialGang": "Evict", "graceSeconds": 30})
    cluster.apply(*gang("train", 3))
    cluster.schedule()
    lost = bound(cluster)["train-1"]
    cluster.delete("pod/train-1", f"node/{lost}")
    cluster.apply(*members("train", 1, start=1))
    cluster.advance(29)
    assert sorted(bound(cluster)) == ["train-0", "train-2"]
    cluster.advance(1)
    assert bound(cluster) == {}
    cluster.apply(gpu_pod("web-0"), gpu_pod("web-1"))
    cluster.schedule()
    assert len(bound(cluster, "web")) == 2


def test_a_gang_that_is_completed_in_its_grace_period_is_not_evicted() -> None:
    cluster = cluster_with(*gpu_nodes(3), gang_args={"partialGang": "Evict", "graceSeconds": 30})
    cluster.apply(*gang("train", 3))
    cluster.schedule()
    lost = bound(cluster)["train-1"]
    cluster.delete("pod/train-1", f"node/{lost}")
    cluster.apply(*members("train", 1, start=1))
    cluster.advance(20)
    cluster.apply(gpu_node("new"))
    cluster.advance(100)
    assert len(bound(cluster)) == 3


# ---- order


def created(group: dict[str, Any], day: int) -> dict[str, Any]:
    group["metadata"]["creationTimestamp"] = f"2020-01-{day:02}T00:00:00Z"
    return group


@pytest.mark.parametrize(
    ("days", "priorities", "winner"),
    [((2, 1), (0, 5), "b"), ((2, 1), (0, 0), "b"), ((1, 1), (0, 0), "a")],
    ids=["priority", "age", "name"],
)
def test_of_two_gangs_one_runs_and_the_other_follows_it_at_once(
    days: tuple[int, int], priorities: tuple[int, int], winner: str
) -> None:
    cluster = cluster_with(*gpu_nodes(8))
    cluster.apply(created(pod_group("a", 8), days[0]), created(pod_group("b", 8), days[1]))
    both = [
        members(name, 8, priority=priority, preemptionPolicy="Never")
        for name, priority in zip("ab", priorities, strict=True)
    ]
    for one, other in zip(*both, strict=True):
        cluster.apply(one, other)
    cluster.schedule()
    loser = "b" if winner == "a" else "a"
    assert (len(bound(cluster, winner)), bound(cluster, loser)) == (8, {})
    assert cluster.scheduler.cluster.assumed_count() == 0
    cluster.delete(*(f"pod/{winner}-{i}" for i in range(8)))
    cluster.schedule()
    assert len(bound(cluster, loser)) == 8


def run_gangs(seed: int) -> tuple[float, float]:
    """Run 20 gangs of random size and duration on 16 nodes; the makespan, and that of list scheduling in the
    same order."""
    chance = random.Random(seed)
    gangs = [(chance.randint(1, 16), chance.randint(1, 50)) for _ in range(20)]
    cluster = cluster_with(*gpu_nodes(16))
    for i, (size, _) in enumerate(gangs):
        cluster.apply(created(pod_group(f"g{i:02}", size), 1), *members(f"g{i:02}", size))
    start, ends, waiting = cluster.now(), {}, set(range(20))
    while True:
        cluster.schedule()
        nodes = bound(cluster)
        for i in sorted(waiting):
            count = sum(name.startswith(f"g{i:02}-") for name in nodes)
            assert count in (0, gangs[i][0])
            if count:
                waiting.discard(i)
                ends[i] = cluster.now() + gangs[i][1]
        free = 16 - len(nodes)
        assert all(gangs[i][0] > free for i in waiting)  # nothing that fits is left waiting
        if not ends:
            break
        cluster.clock.set(min(ends.values()))
        for i in [i for i, end in ends.items() if end == cluster.now()]:
            del ends[i]
            cluster.delete(*(f"pod/g{i:02}-{k}" for k in range(gangs[i][0])))
    assert not waiting
    return cluster.now() - start, list_scheduling(gangs)


def list_scheduling(gangs: list[tuple[int, int]]) -> float:
    """The makespan if at each moment the gangs that fit start in their order."""
    now, free, waiting = 0, 16, list(gangs)
    running: list[tuple[int, int]] = []
    while waiting or running:
        for gang_ in list(waiting):
            if gang_[0] <= free:
                free -= gang_[0]
                waiting.remove(gang_)
                running.append((now + gang_[1], gang_[0]))
        now = min(end for end, _ in running)
        free += sum(size for end, size in running if end == now)
        running = [each for each in running if each[0] > now]
    return float(now)


@pytest.mark.parametrize("seed", range(3))
def test_all_gangs_finish_about_as_early_as_by_list_scheduling(seed: int) -> None:
    makespan, listed = run_gangs(seed)
    assert makespan <= 1.1 * listed


@pytest.mark.slow
def test_many_sets_of_gangs_finish_about_as_early_as_by_list_scheduling() -> None:
    for seed in range(3, 103):
        makespan, listed = run_gangs(seed)
        assert makespan <= 1.1 * listed, seed


def test_a_gang_that_never_fits_costs_plain_pods_nothing() -> None:
    cluster = cluster_with(*gpu_nodes(5))
    cluster.apply(*gang("huge", 40))
    cluster.apply(*(gpu_pod(f"web-{i}", gpus=0) for i in range(500)))
    cluster.advance(3600)
    assert len(bound(cluster, "web")) == 500
    assert attempts(cluster, "huge-0") == 1
    assert len(cluster.decisions) == 540
    for i in range(3):
        cluster.apply(gpu_node(f"more-{i}"))
        cluster.advance(20)
    assert attempts(cluster, "huge-0") <= 1 + 3


# ---- wake-up


def test_an_unrelated_pod_that_ends_causes_no_attempt_no_event_and_no_write() -> None:
    cluster = cluster_with(*gpu_nodes(8))
    cluster.apply(gpu_pod("large", gpus=4), gpu_pod("small", gpus=1, nodeName="n0"))
    cluster.apply(gpu_pod("other", gpus=6, nodeName="n0"))
    cluster.schedule()
    cluster.apply(*gang("train", 8))
    cluster.schedule()
    assert bound(cluster, "train") == {}
    before = (len(cluster.decisions), len(cluster.events()))
    statuses = {pod.name: pod.status for pod in cluster.pods() if pod.name != "small"}
    cluster.delete("pod/small")
    cluster.advance(100)
    assert (len(cluster.decisions), len(cluster.events())) == before
    assert {pod.name: pod.status for pod in cluster.pods()} == statuses


@pytest.mark.parametrize("native", [True, False], ids=["PodGroup", "Coscheduling"])
def test_members_that_arrive_are_not_compared_with_each_other(
    native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin: type[GangScheduling | Coscheduling] = GangScheduling if native else Coscheduling
    asked: list[str] = []
    original = plugin.pre_enqueue

    def pre_enqueue(self: Any, pod: PodInfo) -> Status | None:
        asked.append(pod.name)
        return original(self, pod)

    monkeypatch.setattr(plugin, "pre_enqueue", pre_enqueue)
    if native:
        cluster = cluster_with(*gpu_nodes(1))
        cluster.apply(pod_group("train", 101), *members("train", 100))
    else:
        cluster = coscheduling_cluster(*gpu_nodes(1))
        cluster.apply(labelled_group("train", 101), *labelled_pods("train", 100))
    assert len(asked) <= 300


def test_room_for_one_member_causes_no_attempt_at_a_gang_that_needs_two() -> None:
    cluster = cluster_with(*gpu_nodes(8))
    cluster.apply(*(gpu_pod(f"web-{i}", nodeName=f"n{i}") for i in range(2)))
    cluster.apply(*gang("train", 8))
    cluster.schedule()
    before = (len(cluster.decisions), len(cluster.events()))
    cluster.delete("pod/web-0")
    cluster.advance(900)
    assert (len(cluster.decisions), len(cluster.events())) == before
    cluster.delete("pod/web-1")
    cluster.schedule()
    assert len(bound(cluster, "train")) == 8


def test_with_backoff_a_gang_is_retried_by_time_and_by_no_event() -> None:
    cluster = cluster_with(*gpu_nodes(2), gang_args={"groupRetry": "Backoff"})
    cluster.apply(*gang("train", 3))
    cluster.schedule()
    cluster.apply(gpu_node("n2"))
    cluster.schedule()
    assert bound(cluster) == {}
    cluster.advance(3)
    assert len(bound(cluster)) == 3


def test_a_member_that_changes_has_its_gang_judged_again() -> None:
    cluster = cluster_with(*gpu_nodes(2), gpu_node("small", gpus=1))
    cluster.apply(*gang("train", 3))
    cluster.schedule()
    assert bound(cluster) == {}
    cluster.delete("pod/train-2")
    cluster.apply(*members("train", 1, start=2, gpus=1))
    cluster.schedule()
    assert len(bound(cluster)) == 3


def tainted(name: str) -> dict[str, Any]:
    node = gpu_node(name)
    node["spec"] = {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}
    return node


OBSTACLES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], Callable[[SchedulerCluster], object]]] = {
    "pod deleted": (
        [gpu_node("last"), gpu_pod("occupant", nodeName="last")],
        {},
        lambda cluster: cluster.delete("pod/occupant"),
    ),
    "node added": ([], {}, lambda cluster: cluster.apply(gpu_node("last"))),
    "taint removed": ([tainted("last")], {}, lambda cluster: cluster.apply(gpu_node("last", pool="gpu"))),
    "label set": (
        [gpu_node("last")],
        {"nodeSelector": {"pool": "gpu"}},
        lambda cluster: cluster.apply(gpu_node("last", pool="gpu")),
    ),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_a_gang_starts_in_the_instant_in_which_its_last_obstacle_goes(obstacle: str) -> None:
    objects, spec, remove = OBSTACLES[obstacle]
    cluster = cluster_with(*(gpu_node(f"n{i}", pool="gpu") for i in range(7)))
    cluster.apply(*objects, *gang("train", 8, **spec))
    cluster.advance(100)
    assert bound(cluster, "train") == {}
    remove(cluster)
    cluster.schedule()
    assert len(bound(cluster, "train")) == 8


def test_a_gang_starts_in_the_instant_in_which_its_claim_is_bound() -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default", "uid": "claim"},
        "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "now"},
        "status": {"phase": "Pending"},
    }
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "now"},
        "provisioner": "example.com/none",
        "volumeBindingMode": "Immediate",
    }
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv", "uid": "pv"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "now",
            "claimRef": {"name": "data", "namespace": "default", "uid": "claim"},
        },
    }
    cluster = cluster_with(*gpu_nodes(2))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster.apply(storage, claim, *gang("train", 2, volumes=volumes))
    cluster.advance(100)
    assert bound(cluster) == {}
    metadata = {**claim["metadata"], "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}  # type: ignore[dict-item]
    spec = {**claim["spec"], "volumeName": "pv"}  # type: ignore[dict-item]
    cluster.apply(volume, {**claim, "metadata": metadata, "spec": spec, "status": {"phase": "Bound"}})
    cluster.schedule()
    assert len(bound(cluster)) == 2


def lower_native(cluster: SchedulerCluster) -> None:
    cluster.apply(pod_group("train", 3))


def lower_labelled(cluster: SchedulerCluster) -> None:
    cluster.apply(labelled_group("train", 3))


@pytest.mark.parametrize("native", [True, False], ids=["PodGroup", "Coscheduling"])
def test_no_backoff_is_served_even_after_twenty_failures(native: bool) -> None:
    if native:
        cluster = cluster_with(*gpu_nodes(3))
        cluster.apply(pod_group("train", 5), *members("train", 4), *members("train", 1, start=4, gpus=7))
    else:
        cluster = coscheduling_cluster(*gpu_nodes(3))
        pods = [*labelled_pods("train", 4), *labelled_pods("train", 1, start=4, gpus=7)]
        cluster.apply(labelled_group("train", 5), *pods)
    cluster.schedule()
    for _ in range(20):  # one more node is not enough, which for unequal members takes an attempt
        cluster.apply(gpu_node("more"))
        cluster.schedule()
        cluster.delete("node/more")
        cluster.schedule()
    assert attempts(cluster, "train-0") >= 21
    (lower_native if native else lower_labelled)(cluster)
    cluster.schedule()
    assert len(bound(cluster)) == 3


def test_a_request_that_fails_delays_neither_siblings_nor_binds_twice() -> None:
    cluster = cluster_with(*gpu_nodes(3))
    requests = cluster.fail_bind("train-1", times=10)
    cluster.apply(*gang("train", 3))
    cluster.schedule()
    places = dict(bound(cluster))
    cluster.advance(60)
    assert len(requests) == 11
    assert bound(cluster) == {**places, "train-1": bound(cluster)["train-1"]}
    assert len(set(bound(cluster).values())) == 3


def test_waiting_gangs_are_not_even_moved_by_an_event_that_leaves_too_little_room() -> None:
    cluster = cluster_with(*gpu_nodes(8))
    cluster.apply(*(gpu_pod(f"web-{i}", nodeName=f"n{i}") for i in range(8)))
    for i in range(20):
        cluster.apply(*gang(f"train-{i}", 8))
    cluster.schedule()
    attempts = len(cluster.decisions)
    for i in range(7):
        cluster.delete(f"pod/web-{i}")
        assert cluster.scheduler.queue.counts()["active"] == 0
    cluster.schedule()
    assert len(cluster.decisions) == attempts
    cluster.delete("pod/web-7")
    cluster.schedule()
    assert len(bound(cluster, "train-0-")) == 8
    assert len(bound(cluster)) == 8


def test_the_volume_of_each_pods_token_makes_no_difference() -> None:
    """An API server gives each pod a volume of its own name, and an indexed Job a label of its own value."""
    cluster = cluster_with(*gpu_nodes(8))
    cluster.apply(*(gpu_pod(f"web-{i}", nodeName=f"n{i}") for i in range(8)))
    pods = members("train", 8)
    for i, pod in enumerate(pods):
        pod["metadata"]["labels"] = {"batch.kubernetes.io/job-completion-index": str(i)}
        pod["spec"]["volumes"] = [{"name": f"kube-api-access-{i}", "projected": {"sources": []}}]
    cluster.apply(pod_group("train", 8), *pods)
    cluster.schedule()
    attempts = len(cluster.decisions)
    for i in range(7):
        cluster.delete(f"pod/web-{i}")
        cluster.schedule()
    assert len(cluster.decisions) == attempts
    cluster.delete("pod/web-7")
    cluster.schedule()
    assert len(bound(cluster, "train")) == 8


def test_a_gang_starts_in_the_instant_in_which_a_claim_gives_its_device_back() -> None:
    def claim(name: str) -> dict[str, Any]:
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}
        metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
        return _device_object("ResourceClaim", metadata, {"devices": {"requests": [request]}})

    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "gpu-0"}, {"name": "gpu-1"}]
    slices = {"driver": "gpu.example.com", "nodeName": "n0", "pool": pool, "devices": devices}
    cluster = cluster_with(*gpu_nodes(1))
    cluster.apply(
        _device_object("DeviceClass", {"name": "gpu"}, {}),
        _device_object("ResourceSlice", {"name": "s"}, slices),
    )
    names = ("web", "train-0", "train-1")
    cluster.apply(*map(claim, names))
    web, first, second = (
        gpu_pod(
            name,
            "train" if name != "web" else "",
            0,
            resourceClaims=[{"name": "c", "resourceClaimName": name}],
        )
        for name in names
    )
    cluster.apply(web)
    cluster.schedule()
    cluster.apply(pod_group("train", 2), first, second)
    cluster.advance(100)
    assert sorted(bound(cluster)) == ["web"]
    cluster.delete("pod/web")
    cluster.schedule()
    assert bound(cluster) == {}  # its claim still has the device
    cluster.apply(claim("web"))
    cluster.schedule()
    assert sorted(bound(cluster)) == ["train-0", "train-1"]


def _device_object(kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


# ---- gangs that are not complete


def reported(cluster: SchedulerCluster) -> list[str]:
    events = cluster._memory.events
    return [event.note for event in events if event.reason == "WaitingForPods"]


def test_a_gang_whose_pods_do_not_appear_gets_one_event() -> None:
    cluster = cluster_with(*gpu_nodes(8))
    cluster.apply(pod_group("train", 8), *members("train", 5))
    cluster.advance(20)
    assert reported(cluster) == []
    cluster.advance(600)
    assert reported(cluster) == [
        "waiting for minCount pods from a gang to appear in scheduling queue: 5 of 8 pods exist"
    ]
    cluster.apply(*members("train", 3, start=5))
    cluster.schedule()
    assert len(bound(cluster)) == 8


def test_a_gang_whose_pods_have_scheduling_gates_gets_one_event() -> None:
    cluster = cluster_with(*gpu_nodes(2))
    cluster.apply(*gang("train", 2, schedulingGates=[{"name": "quota"}]), *gang("other", 2))
    cluster.advance(600)
    assert reported(cluster) == ["2 of 2 pods have scheduling gates, and the group needs 2 pods"]
    cluster.delete(*(f"pod/other-{i}" for i in range(2)))
    cluster.apply(*members("train", 2))
    cluster.schedule()
    assert len(bound(cluster, "train")) == 2
