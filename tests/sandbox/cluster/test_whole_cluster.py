"""The fixture `cluster`: a whole cluster in virtual time, as plugin authors use it."""

from __future__ import annotations

import pytest

from mooring.framework import Plugin, unschedulable
from mooring.testing import make_node, make_pod
from mooring.testing.whole_cluster import WholeCluster

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


def test_a_deployment_becomes_running_pods_on_all_nodes(cluster: WholeCluster) -> None:
    cluster.apply(WEB)
    cluster.wait_scheduled()
    cluster.wait(lambda: cluster.get("deploy/web")["status"].get("readyReplicas") == 3)
    pods = cluster.pods("app=web")
    assert {pod.spec.node_name for pod in pods} == {"node-1", "node-2", "node-3"}
    assert all(pod.ready for pod in pods)
    assert cluster.pods("app=db") == []


def test_an_hour_passes_and_nothing_is_lost(cluster: WholeCluster) -> None:
    cluster.apply(WEB)
    cluster.wait_scheduled()
    began = cluster.now()
    before = {pod.uid for pod in cluster.pods()}
    cluster.advance(3600)
    assert cluster.now() == pytest.approx(began + 3600)
    assert {pod.uid for pod in cluster.pods() if pod.ready} == before


def test_scaling_patching_and_deleting(cluster: WholeCluster) -> None:
    cluster.apply(WEB)
    cluster.wait_scheduled()
    cluster.scale("deployment/web", 5)
    cluster.wait(lambda: sum(pod.ready for pod in cluster.pods("app=web")) == 5)
    cluster.delete("deployment/web")
    cluster.wait(lambda: not cluster.pods())
    with pytest.raises(LookupError, match="there is no deployment/web"):
        cluster.get("deployment/web")


def test_waiting_in_vain_tells_what_the_pods_wait_for(cluster: WholeCluster) -> None:
    cluster.apply(make_pod("huge", requests={"cpu": "1000"}))
    with pytest.raises(AssertionError, match="1 pods are pending after 5 s") as failure:
        cluster.wait_scheduled(timeout=5)
    assert "Insufficient cpu" in str(failure.value)
    assert "Insufficient cpu" in cluster.decision("huge").message
    assert [event["reason"] for event in cluster.events("pod/huge")] == ["FailedScheduling"]


class Picky(Plugin):
    """Refuses all nodes but one."""

    name = "Picky"

    def filter(self, state, pod, node):  # type: ignore[no-untyped-def]
        return None if node.name == "b" else unschedulable("is not b")


@pytest.mark.cluster(nodes=[make_node("a"), make_node("b"), make_node("c")], plugins=[Picky])
def test_a_plugin_decides(cluster: WholeCluster) -> None:
    cluster.apply(make_pod("web"))
    cluster.wait_scheduled("web")
    assert cluster.node_of("web") == "b"
    assert cluster.decision("web").refusals["a"].reasons == ["is not b"]
    assert len(cluster.attempts("web")) == 1


class Broken(Plugin):
    """Raises whatever it is asked."""

    name = "Broken"

    def filter(self, state, pod, node):  # type: ignore[no-untyped-def]
        raise ZeroDivisionError("whatever it is asked")


@pytest.mark.cluster(plugins=[Broken])
def test_a_plugin_that_raises_on_every_call_is_named_and_the_rest_goes_on(cluster: WholeCluster) -> None:
    cluster.apply(WEB)
    cluster.advance(120)
    assert len(cluster.pods("app=web")) == 3
    assert all(not pod.spec.node_name for pod in cluster.pods())
    [condition] = [c for c in cluster.pods()[0].status.conditions if c.type == "PodScheduled"]
    assert 'running "Broken" filter plugin: ZeroDivisionError' in condition.message
    assert len(cluster.attempts(cluster.pods()[0].key)) > 2  # it is tried again, after a backoff


def test_pods_of_a_lost_node_run_elsewhere(cluster: WholeCluster) -> None:
    cluster.apply(WEB)
    cluster.wait_scheduled()
    cluster.fail("node-1")
    cluster.advance(60)
    assert _condition(cluster, "node-1") == "Unknown"
    cluster.advance(600)
    ready = [pod for pod in cluster.pods("app=web") if pod.ready]
    assert len(ready) == 3
    assert "node-1" not in {pod.spec.node_name for pod in ready}
    cluster.recover("node-1")
    cluster.advance(60)
    assert _condition(cluster, "node-1") == "True"
    assert len(cluster.pods("app=web")) == 3


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


def test_claims_without_a_class_are_bound_once_their_pods_have_nodes(cluster: WholeCluster) -> None:
    cluster.apply(CLAIMED)
    cluster.wait(lambda: sum(pod.ready for pod in cluster.pods("app=db")) == 2)
    claims = cluster.list("pvc")
    assert [claim["status"]["phase"] for claim in claims] == ["Bound", "Bound"]
    assert {claim["spec"]["storageClassName"] for claim in claims} == {"standard"}
    assert not [event for event in cluster.events() if event["type"] == "Warning"]


def _condition(cluster: WholeCluster, node: str) -> str:
    conditions = cluster.get(f"node/{node}")["status"]["conditions"]
    return next(str(c["status"]) for c in conditions if c["type"] == "Ready")


def test_a_full_cluster_has_room_again_when_something_ends(cluster: WholeCluster) -> None:
    for name in ("a", "b", "c", "d"):
        cluster.apply(make_pod(name, requests={"cpu": "15"}))
    cluster.advance(30)
    [waiting] = [pod.metadata.name for pod in cluster.pods() if not pod.spec.node_name]
    placed = next(pod.metadata.name for pod in cluster.pods() if pod.spec.node_name)
    cluster.delete(f"pod/{placed}")
    cluster.wait_scheduled(waiting)


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ("web", ValueError, "expected kind/name"),
        ("gadget/web", LookupError, 'there is no kind "gadget"'),
        ("pod/web", LookupError, "there is no pod/web"),
    ],
)
def test_what_is_not_there(cluster: WholeCluster, what: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        cluster.get(what)
