"""VolumeBinding's pre_bind: what is written to the API server, and the wait for the controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.framework.status import Code, Status
from mooring.plugins.volume_binding.volume_binding import VolumeBinding
from mooring.runtime.engine_state import EngineState
from mooring.runtime.runners import FilterRunner
from tests.plugins.plugin_kit import make_node, make_pod
from tests.plugins.volume_kit import (
    HOST,
    ApiServer,
    VolumeCluster,
    claim,
    csi_volume,
    storage_class,
    using,
    volume,
)

SELECTED = "volume.kubernetes.io/selected-node"
COMPLETED = "pv.kubernetes.io/bind-completed"


class Binding:
    """A cluster with one pod that uses the claims "static" (a volume exists) and "dynamic" (one is made)."""

    def __init__(self, timeout: int = 600) -> None:
        self.cluster = VolumeCluster(
            [make_node("n", labels={HOST: "n"})],
            storage_class("wait"),
            claim("static", meta={"resourceVersion": "7"}),
            claim("dynamic", "5Gi", meta={"resourceVersion": "8"}),
            volume("pv", "2Gi", on={HOST: ["n"]}, meta={"resourceVersion": "9"}),
        )
        self.api = ApiServer(self.cluster.store, [self.control])
        self.cluster.desk.client = self.api
        self.plugin = self.cluster.plugin(VolumeBinding, bind_timeout_seconds=timeout)
        self.pod = self.cluster.info(make_pod(volumes=using("static", "dynamic")))
        self.state = EngineState()
        self.happenings: dict[float, Callable[[], None]] = {}

    def control(self) -> None:
        happening = self.happenings.get(self.api.now)
        if happening is not None:
            happening()

    def reserve(self) -> None:
        nodes = self.cluster.nodes
        assert self.plugin.pre_filter(self.state, self.pod, nodes) is None
        assert FilterRunner(self.plugin).run(self.state, self.pod, nodes) is None
        self.cluster.assume(self.pod, "n")
        assert self.plugin.reserve(self.state, self.pod, "n") is None

    def run(self) -> Status | None:
        self.reserve()
        return asyncio.run(self.pre_bind())

    async def pre_bind(self) -> Status | None:
        work = self.plugin.pre_bind(self.state, self.pod, "n")
        assert isinstance(work, Awaitable)
        return await work

    def claim(self, name: str) -> PersistentVolumeClaim:
        found = self.cluster.store.get(PersistentVolumeClaim, name, "default")
        assert found is not None
        return found

    def volume(self) -> PersistentVolume:
        found = self.cluster.store.get(PersistentVolume, "pv")
        assert found is not None
        return found

    def objects(self) -> list[KubeObject]:
        return [self.volume(), self.claim("static"), self.claim("dynamic")]

    def bind(self, name: str, volume_name: str) -> None:
        """As the volume controller does."""
        current = self.claim(name)
        meta = current.metadata
        version = str(int(meta.resource_version) + 1000)
        meta = msgspec.structs.replace(
            meta, annotations={**meta.annotations, COMPLETED: "yes"}, resource_version=version
        )
        spec = msgspec.structs.replace(current.spec, volume_name=volume_name)
        self.cluster.put(msgspec.structs.replace(current, metadata=meta, spec=spec))

    def provision(self) -> None:
        self.cluster.put(csi_volume("made", on={HOST: ["n"]}))
        self.bind("dynamic", "made")


def test_decisions_are_written_and_waited_for() -> None:
    binding = Binding()
    binding.happenings = {3.0: lambda: binding.bind("static", "pv"), 5.0: binding.provision}
    assert binding.run() is None
    assert binding.api.now == 5.0
    claim_ref = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": "default",
        "name": "static",
        "uid": "uid-static",
        "resourceVersion": "7",
    }
    marked = {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert binding.api.patches == [
        (
            "pv",
            {"metadata": {"annotations": marked, "resourceVersion": "9"}, "spec": {"claimRef": claim_ref}},
        ),
        ("dynamic", {"metadata": {"annotations": {SELECTED: "n"}, "resourceVersion": "8"}}),
    ]


def test_a_pod_whose_claims_are_bound_has_nothing_to_do() -> None:
    binding = Binding()
    binding.cluster.put(claim("static", volume="pv"), claim("dynamic", volume="pv"))
    binding.reserve()
    assert binding.plugin.pre_bind(binding.state, binding.pod, "n") is None
    assert binding.plugin.pre_bind(EngineState(), binding.pod, "n") is None  # nor one without claims


def test_it_gives_up_after_the_timeout() -> None:
    binding = Binding(timeout=30)
    status = binding.run()
    assert status is not None
    assert (status.code, status.message) == (Code.ERROR, "binding volumes: context deadline exceeded")
    assert binding.api.now == 30.0


def reset_claim_ref(binding: Binding) -> None:
    current = binding.volume()
    meta = msgspec.structs.replace(current.metadata, resource_version="999")
    spec = msgspec.structs.replace(current.spec, claim_ref=None)
    binding.cluster.put(msgspec.structs.replace(current, metadata=meta, spec=spec))


def fail_provisioning(binding: Binding) -> None:
    binding.bind("static", "pv")
    binding.cluster.put(claim("dynamic", meta={"resourceVersion": "999", "annotations": {"other": "x"}}))


def lose_annotations(binding: Binding) -> None:
    binding.bind("static", "pv")
    binding.cluster.put(claim("dynamic", meta={"resourceVersion": "999"}))


def made_elsewhere(binding: Binding) -> None:
    binding.bind("static", "pv")
    binding.cluster.put(csi_volume("made", on={HOST: ["other"]}))
    binding.bind("dynamic", "made")


@pytest.mark.parametrize(
    ("happening", "message"),
    [
        (
            lambda b: b.cluster.remove_pod("pod"),
            'pod does not exist any more: pod "pod" not found',
        ),
        (lambda b: b.cluster.remove_node("n"), 'failed to get node "n": node "n" not found'),
        (
            lambda b: b.cluster.store.remove(PersistentVolume, "pv"),
            'failed to check binding: persistentvolumes "pv" not found',
        ),
        (
            lambda b: b.cluster.store.remove(PersistentVolumeClaim, "default/static"),
            'failed to check binding: persistentvolumeclaims "default/static" not found',
        ),
        (reset_claim_ref, 'ClaimRef got reset for pv "pv"'),
        (
            lambda b: b.cluster.update_node(make_node("n", labels={HOST: "renamed"})),
            'pv "pv" node affinity doesn\'t match node "n": no matching NodeSelectorTerms',
        ),
        (fail_provisioning, 'provisioning failed for PVC "dynamic"'),
        (lose_annotations, 'selectedNode annotation reset for PVC "dynamic"'),
        (
            made_elsewhere,
            'pv "made" node affinity doesn\'t match node "n": no matching NodeSelectorTerms',
        ),
    ],
)
def test_failures(happening: Callable[[Binding], None], message: str) -> None:
    binding = Binding()
    binding.happenings = {2.0: lambda: happening(binding)}
    status = binding.run()
    assert status is not None
    assert (status.code, status.message) == (Code.ERROR, f"binding volumes: {message}")
    assert binding.api.now == 2.0


def test_a_volume_that_is_not_seen_yet_is_waited_for() -> None:
    binding = Binding()

    def bind_both() -> None:
        binding.bind("static", "pv")
        binding.bind("dynamic", "made")

    binding.happenings = {1.0: bind_both, 4.0: lambda: binding.cluster.put(csi_volume("made"))}
    assert binding.run() is None
    assert binding.api.now == 4.0


@pytest.mark.parametrize("late", ["pv", "dynamic"])
def test_a_write_that_has_not_come_back_is_no_failure(late: str) -> None:
    """The watch may lag behind the writes: until one is seen, the object looks as if nothing was decided."""
    binding = Binding()
    stale = binding.objects()
    fresh: list[KubeObject] = []

    def lag() -> None:
        fresh.extend(obj for obj in binding.objects() if obj.name == late)
        binding.bind("static", "pv")
        binding.cluster.put(*(obj for obj in stale if obj.name == late))

    def catch_up() -> None:
        binding.cluster.put(*fresh)
        binding.provision()

    binding.happenings = {1.0: lag, 3.0: catch_up}
    assert binding.run() is None
    assert binding.api.now == 3.0


def test_a_refused_write_leaves_nothing_assumed() -> None:
    """Someone changed the claim in between: what was written stays, what was not is taken back."""
    binding = Binding()
    binding.reserve()
    current = binding.claim("dynamic")
    meta = msgspec.structs.replace(current.metadata, resource_version="50")
    binding.cluster.put(msgspec.structs.replace(current, metadata=meta))
    status = asyncio.run(binding.pre_bind())
    assert status is not None
    assert status.message.startswith("binding volumes: ")
    assert "the object has been modified" in status.message
    binding.plugin.unreserve(binding.state, binding.pod, "n")
    assert SELECTED not in binding.claim("dynamic").metadata.annotations
    assert [name for name, _ in binding.api.patches] == ["pv"]
    assert binding.volume().spec.claim_ref is not None


def test_without_a_client_nothing_is_written() -> None:
    binding = Binding()
    binding.reserve()
    binding.cluster.desk.client = None
    assert binding.plugin.pre_bind(binding.state, binding.pod, "n") is None


# ---- with the whole scheduler


def stateful(index: int) -> Pod:
    return make_pod(f"db-{index}", volumes=using(f"data-{index}"))


def test_replicas_go_where_their_local_volumes_are() -> None:
    scheduler = Scheduler(clock=lambda: 0.0, pick=lambda n: 0, plugins=())
    memory = MemoryCluster(scheduler)
    memory.apply(storage_class("wait", "kubernetes.io/no-provisioner"))
    for name in ("a", "b", "c"):
        memory.apply(make_node(name, labels={HOST: name}))
    for name in ("a", "c"):
        memory.apply(volume(f"disk-{name}", on={HOST: [name]}))
    for i in range(3):
        memory.apply(claim(f"data-{i}"))
        memory.apply(stateful(i))
    memory.run()
    placed = {pod.name: pod.spec.node_name for pod in memory.pods.values()}
    assert sorted(placed[f"db-{i}"] for i in range(2)) == ["a", "c"]
    assert placed["db-2"] == ""
    owners = {v.name: v.spec.claim_ref for v in scheduler.store.list(PersistentVolume)}
    for i in range(2):
        ref = owners[f"disk-{placed[f'db-{i}']}"]
        assert ref is not None
        assert ref.name == f"data-{i}"
    # A new disk is what the third one waits for.
    memory.apply(volume("disk-b", on={HOST: ["b"]}))
    scheduler.clock = lambda: 100.0
    scheduler.tick()
    memory.run()
    assert memory.pods["db-2"].spec.node_name == "b"
