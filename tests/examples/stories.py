"""The stories of examples/delay, compose, sample and sticky, told with kubectl on whichever cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from mooring.api.times import parse_time
from tests.live.replica import wait_for

EXAMPLES = Path(__file__).parents[2] / "examples"
Tree = dict[str, Any]
Kubectl = Callable[..., str]


class Teller:
    """A cluster with nodes, kubelets and controllers, but without a scheduler for our pods."""

    def __init__(self, folder: Path, kubeconfig: Path, kubectl: Kubectl) -> None:
        self.folder = folder
        self.kubeconfig = kubeconfig
        self.kubectl = kubectl

    @contextmanager
    def process(self, example: str, *command: str) -> Iterator[Path]:
        """A program that runs in the folder of an example; where its log is."""
        log = self.folder / f"{command[-1].rpartition('/')[2]}.log"
        with log.open("w") as out:
            running = subprocess.Popen(
                [sys.executable, *command], cwd=EXAMPLES / example, stdout=out, stderr=subprocess.STDOUT
            )
        try:
            yield log
            assert running.poll() is None, log.read_text()
        finally:
            running.terminate()
            running.wait(30)
            print(log.read_text())

    @contextmanager
    def scheduler(self, example: str, config: str, *plugins: str) -> Iterator[Path]:
        """`mooring scheduler` as the example's page starts it; where its log is."""
        loaded = yaml.safe_load(config)
        loaded.setdefault("leaderElection", {})
        path = self.folder / "scheduler.yaml"
        path.write_text(config)
        named = [word for plugin in plugins for word in ("--plugin", plugin)]
        flags = [f"--config={path}", f"--kubeconfig={self.kubeconfig}", "--secure-port=0", "--v=3"]
        if not loaded["leaderElection"]:
            flags.append("--leader-elect=false")
        with self.process(example, "-m", "mooring.cli", "scheduler", *named, *flags) as log:
            wait_for(lambda: "caches are synced" in log.read_text(), "the scheduler is ready")
            yield log

    def account(self, name: str, namespace: str) -> Teller:
        """The same cluster as a service account is let in, with no other rights."""
        token = self.kubectl("create", "token", name, "-n", namespace).strip()
        config = yaml.safe_load(self.kubeconfig.read_text())
        for user in config["users"]:
            user["user"] = {"token": token}
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return Teller(self.folder, path, self.kubectl)

    def pods(self, selector: str = "") -> list[Tree]:
        found = json.loads(self.kubectl("get", "pods", "-o", "json", f"--selector={selector}"))["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def events(self, name: str) -> list[Tree]:
        about = f"involvedObject.name={name}"
        found: list[Tree] = json.loads(
            self.kubectl("get", "events", "-o", "json", "--field-selector", about)
        )["items"]
        return found


def _running(pods: list[Tree]) -> list[Tree]:
    return [pod for pod in pods if pod["status"]["phase"] == "Running"]


def tell_delay(teller: Teller) -> None:
    here = EXAMPLES / "delay"
    with teller.scheduler("delay", (here / "scheduler.yaml").read_text(), "delay:Delay"):
        teller.kubectl("apply", "-f", str(here / "busybox.yaml"))
        teller.kubectl("scale", "deploy", "busybox", "--replicas=1")
        [pod] = wait_for(lambda: teller.pods("run=busybox"), "the pod")
        name = pod["metadata"]["name"]
        described = wait_for(lambda: _with("15 s after its creation", teller, name), "until when it waits")
        assert "FailedScheduling" in described
        assert teller.pods("run=busybox")[0]["status"]["phase"] == "Pending"
        wait_for(lambda: teller.pods("run=busybox")[0]["spec"].get("nodeName"), "it is bound", every=0.2)
        [pod] = teller.pods("run=busybox")
        [bound] = [e for e in teller.events(name) if e["reason"] == "Scheduled"]
        due = parse_time(pod["metadata"]["creationTimestamp"]) + 15
        late = parse_time(bound["eventTime"]) - due
        assert 0 <= late < 5, f"bound {late:.3f} s after its time"  # the example's own test is exact
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "odd", "annotations": {"delay": "soon"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        (teller.folder / "odd.yaml").write_text(yaml.safe_dump(manifest))
        teller.kubectl("apply", "-f", str(teller.folder / "odd.yaml"))
        wait_for(lambda: _with('found "soon"; scheduled without delay', teller, "odd"), "the warning")


def _with(words: str, teller: Teller, pod: str) -> str:
    described = teller.kubectl("describe", "pod", pod)
    return described if words in described else ""


def tell_compose(teller: Teller) -> None:
    here = EXAMPLES / "compose"
    with teller.scheduler("compose", (here / "my-scheduler-config.yaml").read_text()):
        teller.kubectl("apply", "-f", str(here / "pods.yaml"))
        wait_for(lambda: len(_running(teller.pods())) == 2, "both run")
        by_scheduler = {pod["spec"]["schedulerName"] for pod in teller.pods()}
        assert by_scheduler == {"default-scheduler", "my-custom-scheduler"}
        reporters = {
            event.get("reportingComponent") or event["source"]["component"]
            for name in ("nginx-default", "nginx-custom")
            for event in teller.events(name)
            if event["reason"] == "Scheduled"
        }
        assert reporters == by_scheduler
    [config, deployment] = yaml.safe_load_all((here / "deployment.yaml").read_text())
    text = config["data"]["my-scheduler-config.yaml"]
    teller.kubectl("apply", "--dry-run=server", "-f", str(here / "deployment.yaml"))
    assert deployment["kind"] == "Deployment"
    teller.kubectl("delete", "pod", "nginx-custom")
    with teller.scheduler("compose", text):  # from the ConfigMap: this profile alone
        teller.kubectl("apply", "-f", str(here / "pods.yaml"))
        wait_for(lambda: len(_running(teller.pods())) == 2, "nginx-custom runs again")


def tell_sample(teller: Teller) -> None:
    here = EXAMPLES / "sample"
    teller.kubectl("apply", "-f", str(here / "rbac.yaml"), "-f", str(here / "config.yaml"))
    path = r"jsonpath={.data.scheduler-config\.yaml}"
    config = teller.kubectl("get", "configmap", "scheduler-config", "-n", "kube-system", "-o", path)
    scheduler = teller.account("sample-scheduler-sa", "kube-system")
    with scheduler.scheduler("sample", config, "sample_plugin:SamplePlugin") as log:
        teller.kubectl("apply", "-f", str(here / "test-scheduler.yaml"))
        [pod] = wait_for(lambda: _running(teller.pods("app=test-scheduler")), "the pod runs")
        lease = teller.kubectl("get", "lease", "sample-scheduler", "-n", "kube-system", "-o", "name")
        assert lease.strip() == "lease.coordination.k8s.io/sample-scheduler"
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        told = log.read_text()
        steps = [
            '"favorite_color":"#326CE5","favorite_number":7,"thanks_to":"tanjunchen"',
            f'"Attempting to schedule pod" pod="default/{name}"',
            f"prefilter pod: {name}",
            f"filter pod: {name}, node: {node}",
            f"prebind node info: {node}",
            f'"Successfully bound pod to node" pod="default/{name}" node="{node}" evaluatedNodes=3',
        ]
        places = [told.index(step) for step in steps]
        assert places == sorted(places)


def tell_sticky(teller: Teller) -> None:
    here = EXAMPLES / "sticky"
    teller.kubectl("apply", "-f", str(here / "stickyjob-crd.yaml"))
    teller.kubectl("wait", "--for=condition=established", "crd/stickyjobs.example.com")
    with (
        teller.scheduler("sticky", (here / "scheduler.yaml").read_text(), "sticky:StickyNode"),
        teller.process("sticky", "controller.py", "--kubeconfig", str(teller.kubeconfig)),
    ):
        teller.kubectl("apply", "-f", str(here / "job.yaml"), "--validate=ignore")
        node = _sticky_node(teller, without="")
        for _ in range(2):
            [pod] = teller.pods("app=train")
            teller.kubectl("delete", "pod", "-l", "app=train")
            assert _sticky_node(teller, without=pod["metadata"]["uid"]) == node
        [pod] = teller.pods("app=train")
        teller.kubectl("delete", "node", node)
        teller.kubectl("delete", "pod", "-l", "app=train", "--force", "--grace-period=0")
        elsewhere = _sticky_node(teller, without=pod["metadata"]["uid"])
        assert elsewhere != node
        teller.kubectl("delete", "stickyjob", "train")


def _sticky_node(teller: Teller, without: str) -> str:
    """Where the job's next pod runs, once status.lastNode says so."""

    def look() -> str:
        pods = [pod for pod in _running(teller.pods("app=train")) if pod["metadata"]["uid"] != without]
        last = teller.kubectl("get", "stickyjob", "train", "-o", "jsonpath={.status.lastNode}")
        return last if [pod["spec"]["nodeName"] for pod in pods] == [last] else ""

    return wait_for(look, "the job's pod runs, and lastNode says where", every=0.3)


STORIES = {
    "delay": tell_delay,
    "compose": tell_compose,
    "sample": tell_sample,
    "sticky": tell_sticky,
}
