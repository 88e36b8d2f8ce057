"""The real kube-controller-manager and kube-scheduler on the embedded API server: all they need is there."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.live.control_plane import assets, free_port
from tests.live.replica import wait_for
from tests.sandbox.apiserver.kit import Running, running
from tests.sandbox.apiserver.kubectl import Kubectl, needs_kubectl

pytestmark = needs_kubectl

BINARIES = ("kube-controller-manager", "kube-scheduler")
PODS = "/api/v1/namespaces/default/pods"
STRATEGIC = "application/strategic-merge-patch+json"
Tree = dict[str, Any]


class Kubelet:
    """Does what kubelets do, for all nodes: runs the pods that are bound, and ends those that are deleted."""

    def __init__(self, server: Running) -> None:
        self._server = server
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Kubelet:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join(30)

    def _work(self) -> None:
        while not self._over.wait(0.1):
            for pod in self._server.ask("GET", PODS).tree["items"]:
                if pod["spec"].get("nodeName"):
                    self._look_after(pod)

    def _look_after(self, pod: Tree) -> None:
        path = f"{PODS}/{pod['metadata']['name']}"
        if "deletionTimestamp" in pod["metadata"]:
            self._server.ask("DELETE", f"{path}?gracePeriodSeconds=0")
        elif pod["status"]["phase"] == "Pending":
            once = pod["spec"]["restartPolicy"] == "Never"
            status = {
                "phase": "Succeeded" if once else "Running",
                "conditions": [{"type": "Ready", "status": "False" if once else "True"}],
            }
            self._server.ask("PATCH", f"{path}/status", {"status": status}, content_type=STRATEGIC)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """An embedded server with controllers and a scheduler that are not ours, and with nodes."""
    binaries = assets()
    if binaries is None or not all((binaries / name).is_file() for name in BINARIES):
        pytest.skip(f"needs {' and '.join(BINARIES)}: put them where KUBEBUILDER_ASSETS points")
    folder: Path = tmp_path_factory.mktemp("rollout")
    _write_key(folder / "service-account.key")
    with running() as found:
        common = (
            f"--kubeconfig={found.server.kubeconfig}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
        )
        own = {
            "kube-controller-manager": (
                f"--service-account-private-key-file={folder / 'service-account.key'}",
                "--node-monitor-grace-period=1h",  # nobody renews the leases of these nodes
                "--use-service-account-credentials",  # each controller asks for a token of its own
            ),
            "kube-scheduler": (),
        }
        started = []
        try:
            for name in BINARIES:
                flags = (*common, f"--secure-port={free_port()}", *own[name])
                with (folder / f"{name}.log").open("wb") as log:
                    command = [str(binaries / name), *flags]
                    started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=folder))
            with Kubelet(found):
                yield found
        finally:
            for process in started:
                process.kill()
                process.wait()


def _write_key(path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(*form))


@pytest.fixture(scope="module")
def kubectl(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return Kubectl(server.server.kubeconfig, tmp_path_factory.mktemp("home"))


def items(kubectl: Kubectl, what: str, *more: str) -> list[Tree]:
    found: list[Tree] = json.loads(kubectl("get", what, "-o", "json", *more))["items"]
    return found


@pytest.fixture(scope="module", autouse=True)
def nodes(server: Running, kubectl: Kubectl) -> None:
    """New nodes are tainted; once they are found to be ready, the controller of nodes lets pods on them."""
    for number in range(3):
        body = {
            "metadata": {"name": f"n{number}", "labels": {"kubernetes.io/hostname": f"n{number}"}},
            "status": {
                "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        made = server.ask("POST", "/api/v1/nodes", body).tree
        assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    wait_for(lambda: not any("taints" in node["spec"] for node in items(kubectl, "nodes")), "ready nodes")


def test_a_deployment_rolls_out_and_goes(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=3")
    done = 'deployment "web" successfully rolled out'
    assert done in kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    pods = items(kubectl, "pods", "-l", "app=web")
    assert {pod["spec"]["nodeName"] for pod in pods} == {"n0", "n1", "n2"}
    assert all(pod["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet" for pod in pods)

    kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    assert done in kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    images = {pod["spec"]["containers"][0]["image"] for pod in items(kubectl, "pods", "-l", "app=web")}
    assert "nginx:2" in images
    kubectl("rollout", "undo", "deployment/web")
    assert done in kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert kubectl("get", "deployment", "web", "-o", image) == "nginx:1"

    assert [line.split()[0] for line in kubectl("rollout", "history", "deployment/web").splitlines()[2:]] == [
        "2",
        "3",
    ]
    kubectl("rollout", "pause", "deployment/web")
    kubectl("rollout", "restart", "deployment/web", code=1)
    kubectl("rollout", "resume", "deployment/web")
    kubectl("rollout", "restart", "deployment/web")
    assert done in kubectl("rollout", "status", "deployment/web", "--timeout=60s")

    kubectl("delete", "deployment", "web")
    wait_for(lambda: not items(kubectl, "pods", "-l", "app=web"), "the pods to go")
    assert not items(kubectl, "replicasets")


def test_dependents_are_deleted_first_or_left_alone(kubectl: Kubectl) -> None:
    """What the garbage collector does for the policies of a deletion."""
    for name in ("first", "alone"):
        kubectl("create", "deployment", name, "--image=nginx:1", "--replicas=2")
        kubectl("rollout", "status", f"deployment/{name}", "--timeout=60s")
    kubectl("delete", "deployment", "first", "--cascade=foreground", "--timeout=60s")
    assert not items(kubectl, "replicasets,pods", "-l", "app=first"), "it waited for its dependents"
    kubectl("delete", "deployment", "alone", "--cascade=orphan", "--timeout=60s")
    (left,) = items(kubectl, "replicasets", "-l", "app=alone")
    assert "ownerReferences" not in left["metadata"]
    assert len(items(kubectl, "pods", "-l", "app=alone")) == 2
    kubectl("delete", "replicaset", left["metadata"]["name"])


def test_a_node_is_drained_as_fast_as_a_budget_allows(kubectl: Kubectl) -> None:
    """kubectl tries refused evictions again; the controllers replace what was evicted, elsewhere."""
    kubectl("create", "deployment", "kept", "--image=nginx:1", "--replicas=3")
    kubectl("rollout", "status", "deployment/kept", "--timeout=60s")
    kubectl("create", "pdb", "kept", "--selector=app=kept", "--min-available=2")
    status = "jsonpath={.status.disruptionsAllowed}"
    wait_for(lambda: kubectl("get", "pdb", "kept", "-o", status) == "1", "the budget's controller")

    drained = kubectl("drain", "n0", "n1", "--ignore-daemonsets", "--timeout=50s")
    assert "node/n0 drained" in drained
    assert "node/n1 drained" in drained
    kubectl("uncordon", "n0", "n1")
    kubectl("rollout", "status", "deployment/kept", "--timeout=60s")
    kubectl("delete", "deployment,pdb", "kept")


def test_a_job_completes(kubectl: Kubectl) -> None:
    kubectl("create", "job", "once", "--image=busybox", "--", "true")
    waited = kubectl("wait", "--for=condition=complete", "job/once", "--timeout=60s")
    assert "job.batch/once condition met" in waited
    assert [pod["status"]["phase"] for pod in items(kubectl, "pods", "-l", "job-name=once")] == ["Succeeded"]


def test_stateful_sets_and_daemon_sets(kubectl: Kubectl) -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    for kind, more in (("DaemonSet", {}), ("StatefulSet", {"replicas": 2, "serviceName": "s"})):
        body = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"}, "spec": {**spec, **more}}
        kubectl("apply", "-f", "-", stdin=json.dumps(body))
        kubectl("rollout", "status", f"{kind.lower()}/a", "--timeout=60s")
    names = {pod["metadata"]["name"] for pod in items(kubectl, "pods", "-l", "app=a")}
    assert {"a-0", "a-1"} < names
    assert len(names) == 5


def test_a_namespace_goes_with_what_is_in_it(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "fleeting")
    kubectl("create", "configmap", "a", "-n", "fleeting")
    wait_for(lambda: items(kubectl, "serviceaccounts", "-n", "fleeting"), "a service account")
    wait_for(lambda: len(items(kubectl, "configmaps", "-n", "fleeting")) == 2, "the root certificate")
    kubectl("delete", "namespace", "fleeting", "--timeout=60s")
    assert kubectl("get", "namespace", "fleeting", code=1).startswith("Error from server (NotFound)")
