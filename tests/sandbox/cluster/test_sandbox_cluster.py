"""The fixture `cluster`: a whole cluster in virtual time, as plugin authors use it."""

from __future__ import annotations

import pytest

from mooring.framework import Plugin, unschedulable
from mooring.testing import make_node, make_pod
from mooring.testing.sandbox_cluster import SandboxCluster

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: nginx, resources: {requests: {cpu: 500m}}}
"""


def test_a_deployment_becomes_running_pods_on_all_nodes(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(WEB)
    mooring_cluster.wait_scheduled()
    mooring_cluster.wait(lambda: mooring_cluster.get("deploy/web")["status"].get("readyReplicas") == 3)
    pods = mooring_cluster.pods("app=web")
    assert {pod.spec.node_name for pod in pods} == {"node-1", "node-2", "node-3"}
    assert all(pod.ready for pod in pods)
    assert mooring_cluster.pods("app=db") == []


def test_pods_under_a_limit_range_are_bound(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(
        """
apiVersion: v1
kind: LimitRange
metadata: {name: small}
spec: {limits: [{type: Container, max: {cpu: "1"}, default: {cpu: 200m}}]}
"""
    )
    mooring_cluster.apply(make_pod("web"))
    mooring_cluster.wait_scheduled()
    mooring_cluster.wait(lambda: mooring_cluster.pod("web").ready)


def test_an_hour_passes_and_nothing_is_lost(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(WEB)
    mooring_cluster.wait_scheduled()
    began = mooring_cluster.now()
    before = {pod.uid for pod in mooring_cluster.pods()}
    mooring_cluster.advance(3600)
    assert mooring_cluster.now() == pytest.approx(began + 3600)
    assert {pod.uid for pod in mooring_cluster.pods() if pod.ready} == before


def test_scaling_patching_and_deleting(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(WEB)
    mooring_cluster.wait_scheduled()
    mooring_cluster.scale("deployment/web", 5)
    mooring_cluster.wait(lambda: sum(pod.ready for pod in mooring_cluster.pods("app=web")) == 5)
    mooring_cluster.delete("deployment/web")
    mooring_cluster.wait(lambda: not mooring_cluster.pods())
    with pytest.raises(LookupError, match="deployment/web does not exist"):
        mooring_cluster.get("deployment/web")


def test_waiting_in_vain_tells_what_the_pods_wait_for(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(make_pod("huge", requests={"cpu": "1000"}))
    with pytest.raises(AssertionError, match="1 pod is pending after 5 s") as failure:
        mooring_cluster.wait_scheduled(timeout=5)
    assert "Insufficient cpu" in str(failure.value)
    assert "Insufficient cpu" in mooring_cluster.decision("huge").message
    assert [event.reason for event in mooring_cluster.events("pod/huge")] == ["FailedScheduling"]


class Picky(Plugin):
    """Refuses all nodes but one."""

    name = "Picky"

    def filter(self, state, pod, node):  # type: ignore[no-untyped-def]
        return None if node.name == "b" else unschedulable("is not b")


@pytest.mark.mooring_cluster(nodes=[make_node("a"), make_node("b"), make_node("c")], plugins=[Picky])
def test_a_plugin_decides(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(make_pod("web"))
    mooring_cluster.wait_scheduled("web")
    assert mooring_cluster.node_of("web") == "b"
    assert mooring_cluster.decision("web").refusals["a"].reasons == ["is not b"]
    assert len(mooring_cluster.attempts("web")) == 1


class Broken(Plugin):
    """Raises whatever it is asked."""

    name = "Broken"

    def filter(self, state, pod, node):  # type: ignore[no-untyped-def]
        raise ZeroDivisionError("whatever it is asked")


@pytest.mark.mooring_cluster(plugins=[Broken])
def test_a_plugin_that_raises_on_every_call_is_named(
    mooring_cluster: SandboxCluster,
) -> None:
    mooring_cluster.apply(WEB)
    mooring_cluster.advance(120)
    assert len(mooring_cluster.pods("app=web")) == 3
    assert all(not pod.spec.node_name for pod in mooring_cluster.pods())
    [condition] = [c for c in mooring_cluster.pods()[0].status.conditions if c.type == "PodScheduled"]
    assert 'running "Broken" filter plugin: ZeroDivisionError' in condition.message
    assert (
        len(mooring_cluster.attempts(mooring_cluster.pods()[0].key)) > 2
    )  # it is tried again, after a backoff


def test_pods_of_a_lost_node_run_elsewhere(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(WEB)
    mooring_cluster.wait_scheduled()
    mooring_cluster.fail("node-1")
    mooring_cluster.advance(60)
    assert _condition(mooring_cluster, "node-1") == "Unknown"
    mooring_cluster.advance(600)
    ready = [pod for pod in mooring_cluster.pods("app=web") if pod.ready]
    assert len(ready) == 3
    assert "node-1" not in {pod.spec.node_name for pod in ready}
    mooring_cluster.recover("node-1")
    mooring_cluster.advance(60)
    assert _condition(mooring_cluster, "node-1") == "True"
    assert len(mooring_cluster.pods("app=web")) == 3


CLAIMED = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: main, image: postgres, volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


def test_claims_without_a_class_are_bound_once_their_pods_have_nodes(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(CLAIMED)
    mooring_cluster.wait(lambda: sum(pod.ready for pod in mooring_cluster.pods("app=db")) == 2)
    claims = mooring_cluster.list("pvc")
    assert [claim["status"]["phase"] for claim in claims] == ["Bound", "Bound"]
    assert {claim["spec"]["storageClassName"] for claim in claims} == {"standard"}
    assert not [event for event in mooring_cluster.events() if event.type == "Warning"]


def _condition(cluster: SandboxCluster, node: str) -> str:
    conditions = cluster.get(f"node/{node}")["status"]["conditions"]
    return next(str(c["status"]) for c in conditions if c["type"] == "Ready")


def test_a_full_cluster_has_room_again_when_something_ends(mooring_cluster: SandboxCluster) -> None:
    for name in ("a", "b", "c", "d"):
        mooring_cluster.apply(make_pod(name, requests={"cpu": "15"}))
    mooring_cluster.advance(30)
    [waiting] = [pod.metadata.name for pod in mooring_cluster.pods() if not pod.spec.node_name]
    placed = next(pod.metadata.name for pod in mooring_cluster.pods() if pod.spec.node_name)
    mooring_cluster.delete(f"pod/{placed}")
    mooring_cluster.wait_scheduled(waiting)


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ("web", ValueError, "expected kind/name"),
        ("gadget/web", LookupError, 'kind "gadget" does not exist'),
        ("pod/web", LookupError, "pod/web does not exist"),
    ],
)
def test_what_is_not_there(
    mooring_cluster: SandboxCluster, what: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        mooring_cluster.get(what)
