"""The story of examples/extender on a real API server: a scheduler goes by what `mooring extender` says.

Nodes are labelled, configurations changed and Deployments restarted by the commands of the example's page;
the scheduler is the real kube-scheduler, or Mooring.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
import yaml

from tests.live.control_plane import ControlPlane
from tests.live.replica import Replica, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "extender"
LABEL = "priority.lixueduan.com"
NO_LABEL = f"all node do not have label {LABEL}"
NODES = ("scheduler-1", "scheduler-2")
Tree = dict[str, Any]


class Kubelet:
    """Runs the pods of a namespace that are bound, and ends those that are deleted."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Kubelet:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join(30)

    def _work(self) -> None:
        while not self._over.wait(0.2):
            for pod in json.loads(self._plane.request("GET", self._path))["items"]:
                try:
                    self._look_after(pod, f"{self._path}/{pod['metadata']['name']}")
                except HTTPError as refusal:  # it changed meanwhile, or is gone: another time
                    if refusal.code not in (404, 409):
                        raise

    def _look_after(self, pod: Tree, path: str) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            self._plane.request("DELETE", path, b'{"gracePeriodSeconds":0}')
        elif pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
            pod["status"] |= {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            self._plane.request("PUT", f"{path}/status", json.dumps(pod).encode())


class Extender:
    """`mooring extender` as a process."""

    def __init__(self, plane: ControlPlane, folder: Path, *what: str) -> None:
        self._log = folder / "extender.log"
        command = [sys.executable, "-m", "mooring.cli", "extender", *what, "--port=0", "--v=2"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, f"--kubeconfig={plane.kubeconfig()}"], stdout=log, stderr=log
            )

    def __enter__(self) -> Extender:
        wait_for(lambda: "bind on" in self.log or self.process.poll() is not None, "the extender serves")
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.terminate()
        code = self.process.wait(30)
        print(f"---- extender\n{self.log}")
        assert code == 0

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def url(self) -> str:
        return self.log.partition("bind on ")[2].partition("/bind")[0]


class Story:
    """A namespace with a kubelet, two nodes, and the Deployment of the example."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        self.namespace = f"extender-{secrets.token_hex(3)}"

    def kubectl(self, *words: str) -> str:
        return self.plane.kubectl(f"--namespace={self.namespace}", *words)

    def make(self) -> None:
        self.plane.kubectl("create", "namespace", self.namespace)
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        for name in NODES:
            body: Tree = {"metadata": {"name": name}, "status": {"allocatable": amounts, "capacity": amounts}}
            self.plane.request("POST", "/api/v1/nodes", json.dumps(body).encode())

    def clear(self) -> None:
        self.plane.kubectl("delete", "node", *NODES)
        self.kubectl("delete", "deployment", "--all", "--cascade=foreground")

    def create(self, name: str, tier: str, cpu: str, **spec: Any) -> None:
        container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
        spec |= {"schedulerName": "i-scheduler-extender", "containers": [container]}
        body = {"metadata": {"name": name, "labels": {"tier": tier}}, "spec": spec}
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        self.plane.request("POST", path, json.dumps(body).encode())

    def pods(self) -> list[Tree]:
        found: list[Tree] = json.loads(self.kubectl("get", "pods", "-l", "app=test", "-o", "json"))["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def event(self, reason: str) -> str:
        """Wait for an event about the pods; its message, and who told it."""

        def look() -> list[Tree]:
            found = json.loads(self.kubectl("get", "events.v1.events.k8s.io", "-o", "json"))["items"]
            return [event for event in found if event["reason"] == reason]

        told = wait_for(look, f"an event {reason}", every=0.3)[-1]
        assert told["reportingController"] == "i-scheduler-extender"
        return str(told["note"])

    def node(self) -> str:
        """Wait until one pod is left, and bound; where."""

        def look() -> str:
            pods = self.pods()
            return pods[0]["spec"].get("nodeName", "") if len(pods) == 1 else ""

        return wait_for(look, "the one pod is bound", every=0.2)

    def restart(self) -> str:
        """Restart the Deployment; where the new pod is."""
        (old,) = self.pods()
        self.kubectl("rollout", "restart", "deployment", "test")
        wait_for(lambda: old["metadata"]["name"] not in str(self.pods()), "the old pod goes", every=0.2)
        return self.node()

    @contextmanager
    def scheduler(self, caller: str, extender: Extender, **changes: Any) -> Iterator[None]:
        """A scheduler with the example's configuration, and these changes to its extender."""
        config = yaml.safe_load((EXAMPLE / "scheduler.yaml").read_text())
        config["clientConnection"] = {"kubeconfig": str(self.plane.kubeconfig())}
        config["extenders"][0] |= {"urlPrefix": extender.url, **changes}
        if caller == "mooring":
            with Replica(self.folder, config) as replica:
                yield
                assert replica.end() == 0
            return
        path = self.folder / "kube-scheduler.yaml"
        path.write_text(yaml.safe_dump(config))
        with self.plane.kube_scheduler(path):
            yield


@pytest.fixture
def story(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Story]:
    for binary in ("kube-scheduler", "kube-controller-manager"):
        if not control_plane.has(binary):
            pytest.skip(f"needs {binary}: put it where KUBEBUILDER_ASSETS points")
    control_plane.start_controller_manager(
        "deployment-controller", "replicaset-controller", "garbagecollector"
    )
    made = Story(control_plane, tmp_path)
    try:
        made.make()
        with Kubelet(control_plane, made.namespace):
            yield made
            made.clear()
            wait_for(lambda: not made.pods(), "the pods go")
    finally:
        control_plane.stop_controller_manager()


@pytest.mark.parametrize(
    ("caller", "cached"), [("kube-scheduler", False), ("kube-scheduler", True), ("mooring", False)]
)
def test_the_story(story: Story, caller: str, cached: bool, tmp_path: Path) -> None:
    flags = ["--node-cache-capable"] if cached else []
    with Extender(story.plane, tmp_path, str(EXAMPLE / "priority.py"), *flags) as extender:
        with story.scheduler(caller, extender, nodeCacheCapable=cached):
            pending_until_a_node_is_labelled(story)
            the_score_is_one_opinion_among_others(story)
        with story.scheduler(caller, extender, nodeCacheCapable=cached, filterVerb="filter_onlyone"):
            the_filter_decides(story)
        bound = [line for line in extender.log.splitlines() if 'verb="bind"' in line]
        assert len(bound) >= 4
        assert all(f'pod="{story.namespace}/test-' in line for line in bound)


def pending_until_a_node_is_labelled(story: Story) -> None:
    story.kubectl("apply", "-f", str(EXAMPLE / "deploy" / "deploy-test.yaml"))
    assert story.event("FailedScheduling") == NO_LABEL
    (pod,) = story.pods()
    assert pod["status"]["phase"] == "Pending"
    story.kubectl("label", "node", "scheduler-1", f"{LABEL}=10")
    assert story.node() == "scheduler-1"
    assert story.event("Scheduled").startswith(f"Successfully assigned {story.namespace}/test-")


def the_score_is_one_opinion_among_others(story: Story) -> None:
    """The second node has the higher priority, and a taint that weighs more with the other plugins."""
    story.kubectl("label", "node", "scheduler-2", f"{LABEL}=20")
    story.kubectl("taint", "node", "scheduler-2", "somewhat=busy:PreferNoSchedule")
    assert story.restart() == "scheduler-1"
    story.kubectl("taint", "node", "scheduler-2", "somewhat-")
    assert story.restart() == "scheduler-2"


def the_filter_decides(story: Story) -> None:
    story.kubectl("taint", "node", "scheduler-2", "somewhat=busy:PreferNoSchedule")
    assert story.restart() == "scheduler-2"
    story.kubectl("label", "node", "scheduler-1", f"{LABEL}=30", "--overwrite")
    assert story.restart() == "scheduler-1"


PREEMPT = """
from mooring import extender

@extender.preempt
def only_from_the_second(pod, victims):
    assert [each.metadata.labels["tier"] for each in victims["scheduler-2"].pods] == ["low"]
    return ["scheduler-2"]
"""


@pytest.mark.parametrize(
    ("caller", "cached"), [("kube-scheduler", False), ("kube-scheduler", True), ("mooring", True)]
)
def test_an_extender_says_from_where_pods_may_be_evicted(
    story: Story, caller: str, cached: bool, tmp_path: Path
) -> None:
    (tmp_path / "preempting.py").write_text(PREEMPT)
    story.plane.kubectl("apply", "-f", "-", stdin=PRIORITY)
    for name in NODES:
        story.create(f"low-{name}", "low", cpu="4", nodeName=name)
    flags = ["--node-cache-capable"] if cached else []
    changes = {"filterVerb": "", "prioritizeVerb": "", "weight": 0, "preemptVerb": "preempt"}
    with (
        Extender(story.plane, tmp_path, str(tmp_path / "preempting.py"), *flags) as extender,
        story.scheduler(caller, extender, nodeCacheCapable=cached, **changes),
    ):
        story.create("urgent", "high", cpu="4", priorityClassName="extender-urgent")
        node = "jsonpath={.spec.nodeName}"
        placed = wait_for(
            lambda: story.kubectl("get", "pod", "urgent", "-o", node), "urgent is bound", every=0.2
        )
    assert placed == "scheduler-2"
    left = story.kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.name}").split()
    assert left == ["low-scheduler-1", "urgent"]
    story.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")


PRIORITY = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: extender-urgent}
value: 1000
"""
