"""A sticky job comes back to its node, goes elsewhere where it must, and remembers."""

from pathlib import Path

import pytest
from controller import StickyJobController
from sticky import StickyNode

from mooring.client.api_errors import ApiError

HERE = Path(__file__).parent
CONFIG = (HERE / "scheduler.yaml").read_text()
JOB = {
    "apiVersion": "example.com/v1",
    "kind": "StickyJob",
    "metadata": {"name": "train"},
}
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}

sticky = pytest.mark.mooring_cluster(nodes=5, plugins=[StickyNode], config=CONFIG)


def preserving(text):
    """The definition with a schema that lets pod templates through."""
    field = "                type: object      # a PodTemplateSpec\n"
    assert field in text
    return text.replace(field, field + "                x-kubernetes-preserve-unknown-fields: true\n")


def begin(cluster, scheduler_name="default-scheduler"):
    """A job that runs; its pod's node."""
    cluster.apply(preserving((HERE / "stickyjob-crd.yaml").read_text()))
    cluster.begin(StickyJobController)
    template = {"spec": {**TEMPLATE["spec"], "schedulerName": scheduler_name}}
    cluster.apply({**JOB, "spec": {"template": template}})
    cluster.wait(lambda: running(cluster), what="the first pod")
    return running(cluster).spec.node_name


def running(cluster):
    return next((pod for pod in cluster.pods() if pod.ready), None)


def last_node(cluster):
    return cluster.get("stickyjob/train").get("status", {}).get("lastNode")


def run_again(cluster):
    """Delete the pod; the node of the next one."""
    old = running(cluster)
    cluster.delete(f"pod/{old.name}")
    cluster.wait(lambda: running(cluster) and running(cluster).uid != old.uid, what="another pod")
    return running(cluster).spec.node_name


@sticky
def test_it_comes_back_to_the_same_node(mooring_cluster):
    node = begin(mooring_cluster)
    assert last_node(mooring_cluster) == node
    assert [run_again(mooring_cluster) for _ in range(5)] == [node] * 5


@sticky
def test_a_pod_that_ends_is_run_again(mooring_cluster):
    node = begin(mooring_cluster)
    pod = running(mooring_cluster)
    mooring_cluster.fail(node)
    mooring_cluster.recover(node)
    mooring_cluster.delete(f"pod/{pod.name}")
    mooring_cluster.wait(lambda: running(mooring_cluster) and running(mooring_cluster).uid != pod.uid)
    assert running(mooring_cluster).spec.node_name == node


@sticky
def test_where_its_node_is_gone_it_runs_elsewhere_and_remembers(mooring_cluster):
    node = begin(mooring_cluster)
    mooring_cluster.delete(f"node/{node}")
    mooring_cluster.advance(60)  # the pod of a node that is gone is collected
    mooring_cluster.wait(lambda: running(mooring_cluster), timeout=300, what="a pod elsewhere")
    elsewhere = running(mooring_cluster).spec.node_name
    assert elsewhere != node
    assert last_node(mooring_cluster) == elsewhere
    assert run_again(mooring_cluster) == elsewhere


@sticky
def test_a_required_node_is_waited_for_but_not_for_ever(mooring_cluster):
    node = begin(mooring_cluster, "strict-scheduler")
    mooring_cluster.patch(f"node/{node}", {"spec": {"unschedulable": True}})
    old = running(mooring_cluster)
    mooring_cluster.delete(f"pod/{old.name}")
    mooring_cluster.advance(30)
    [pod] = mooring_cluster.pods()
    assert not pod.spec.node_name
    assert f"4 node(s) were not {node}, where the job ran last" in mooring_cluster.decision(pod.name).message
    mooring_cluster.advance(31)
    assert mooring_cluster.node_of(pod.name) not in ("", node)


@sticky
def test_as_the_document_has_it_the_template_is_kept_by_kubectl_apply_only(mooring_cluster):
    mooring_cluster.apply((HERE / "stickyjob-crd.yaml").read_text())
    mooring_cluster.begin(StickyJobController)
    mooring_cluster.apply({**JOB, "spec": {"template": TEMPLATE}})
    mooring_cluster.advance(5)
    assert mooring_cluster.get("stickyjob/train")["spec"]["template"] == {}
    assert [event.reason for event in mooring_cluster.events("stickyjob/train")] == ["NoTemplate"]


@sticky
def test_two_schedulers_share_the_memory_of_a_job(mooring_cluster):
    node = begin(mooring_cluster)
    template = {"spec": {**TEMPLATE["spec"], "schedulerName": "strict-scheduler"}}
    mooring_cluster.patch("stickyjob/train", {"spec": {"template": template}})
    assert run_again(mooring_cluster) == node
    assert running(mooring_cluster).spec.scheduler_name == "strict-scheduler"


class Conflicts:
    """Clients whose first patches meet a change of somebody else's."""

    def __init__(self, client, count):
        self.client = client
        self.left = count

    def __getattr__(self, name):
        return getattr(self.client, name)

    async def patch(self, obj, patch, subresource=""):
        if self.left:
            self.left -= 1
            raise ApiError(409, "Conflict", "the object has been modified")
        await self.client.patch(obj, patch, subresource)


@sticky
def test_a_conflict_of_the_status_is_overcome(mooring_cluster):
    scheduler = mooring_cluster.scheduler
    scheduler.client = Conflicts(scheduler.client, 3)
    node = begin(mooring_cluster)
    assert scheduler.client.left == 0
    assert last_node(mooring_cluster) == node
