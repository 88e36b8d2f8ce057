"""The pods of a set, counted as they change: always as if they were counted anew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.api.kinds import PODS, REPLICA_SETS
from mooring.api.meta import Condition, LabelSelector, ObjectMeta, OwnerReference
from mooring.api.objects import Pod, PodStatus
from mooring.api.workloads import ReplicaSet, ReplicaSetSpec
from mooring.client.cache import Cache
from mooring.client.controller import Context
from mooring.client.counting_recorder import CountingRecorder
from mooring.sandbox.controllers.replica_set import ReplicaSetController
from mooring.sandbox.controllers.replica_tally import Tally
from tests.client.fake_cluster import FakeCluster

LABELS = [{}, {"app": "web"}, {"app": "web", "tier": "front"}]
TALLIED = ("active", "labeled", "ready", "leaving", "strays")


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    owner = draw(st.sampled_from(["", "web", "other"]))
    owners = [OwnerReference(kind="ReplicaSet", name=owner, uid=owner, controller=True)] if owner else []
    name = draw(st.sampled_from("abc"))
    meta = ObjectMeta(
        name=name,
        namespace="default",
        uid=name + draw(st.sampled_from("12")),
        labels=draw(st.sampled_from(LABELS)),
        owner_references=owners,
        deletion_timestamp=draw(st.sampled_from([None, "2030-01-01T00:00:00Z"])),
    )
    ready = [Condition(type="Ready", status=draw(st.sampled_from(["True", "False"])))]
    phase = draw(st.sampled_from(["Pending", "Running", "Failed"]))
    return Pod(metadata=meta, status=PodStatus(phase=phase, conditions=ready))


CHANGES = st.lists(st.tuples(st.sampled_from(["apply", "delete", "look"]), pods()), max_size=30)


@given(CHANGES)
def test_what_is_counted_as_it_changes_is_what_there_is(changes: list[tuple[str, Pod]]) -> None:
    cluster = FakeCluster()
    cache = Cache(cluster)
    controller = ReplicaSetController(Context(cluster, cache, CountingRecorder(cluster), lambda: 0.0))
    spec = ReplicaSetSpec(
        selector=LabelSelector(match_labels=LABELS[1]), template={"metadata": {"labels": LABELS[2]}}
    )
    owner = ReplicaSet(metadata=ObjectMeta(name="web", namespace="default", uid="web"), spec=spec)
    cache.follow(REPLICA_SETS).apply(owner)
    found = cache.follow(PODS)
    for version, (what, pod) in enumerate(changes, 1):
        pod.metadata.resource_version = str(version)
        if what == "apply":
            found.apply(pod)
        elif what == "delete":
            found.delete(pod)
        else:
            controller._tally(owner)
    counted = controller._tally(owner)
    anew = Tally(owner, controller.selector_of(owner), found.controlled_by("web"))
    assert [getattr(counted, name) for name in TALLIED] == [getattr(anew, name) for name in TALLIED]
