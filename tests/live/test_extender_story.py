"""The story of examples/extender on a real API server: a scheduler goes by what `mooring extender` says.

The scheduler is the real kube-scheduler, or Mooring; kube-controller-manager looks after the Deployment.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from mooring.serving.certificates import make_certificates
from tests.examples.extender_story import EXAMPLE, NODES, Extender, Story, Tree
from tests.live.control_plane import ControlPlane
from tests.live.replica import wait_for
from tests.serving.certificates import ClientAuthority

MANIFEST = EXAMPLE / "deploy" / "manifest.yaml"


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


def create_nodes(plane: ControlPlane) -> None:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    for name in NODES:
        body: Tree = {"metadata": {"name": name}, "status": {"allocatable": amounts, "capacity": amounts}}
        plane.request("POST", "/api/v1/nodes", json.dumps(body).encode())


def service_account(plane: ControlPlane) -> Path:
    """The kubeconfig of the account that the example's manifest gives to scheduler and extender."""
    plane.kubectl("apply", "-f", str(MANIFEST))
    token = plane.kubectl("create", "token", "i-scheduler-extender", "--namespace=kube-system").strip()
    return plane.kubeconfig(token=token, name="i-scheduler-extender")


@pytest.fixture
def story(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Story]:
    plane, namespace = control_plane, f"extender-{secrets.token_hex(3)}"
    for binary in ("kube-scheduler", "kube-controller-manager"):
        if not plane.has(binary):
            pytest.skip(f"needs {binary}: put it where KUBEBUILDER_ASSETS points")
    plane.start_controller_manager("deployment-controller", "replicaset-controller", "garbagecollector")
    try:
        plane.kubectl("create", "namespace", namespace)
        create_nodes(plane)
        account = service_account(plane)
        made = Story(tmp_path, account, plane.kubectl, namespace, plane.kube_scheduler)
        with Kubelet(plane, namespace):
            yield made
            plane.kubectl("delete", "node", *NODES)
            plane.kubectl("delete", "-f", str(MANIFEST))
            made.kubectl("delete", "deployment", "--all", "--cascade=foreground")
            wait_for(lambda: not made.pods(), "the pods go")
    finally:
        plane.stop_controller_manager()


@pytest.mark.parametrize(
    ("caller", "cached"), [("kube-scheduler", False), ("kube-scheduler", True), ("mooring", False)]
)
def test_the_story(story: Story, caller: str, cached: bool) -> None:
    story.tell(caller, cached)


# ---- preemption

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
    story: Story, control_plane: ControlPlane, caller: str, cached: bool, tmp_path: Path
) -> None:
    """Over TLS, with a certificate of the scheduler's."""
    (tmp_path / "preempting.py").write_text(PREEMPT)
    control_plane.kubectl("apply", "-f", "-", stdin=PRIORITY)
    for name in NODES:
        create(control_plane, story.namespace, f"low-{name}", "low", cpu="4", nodeName=name)
    flags, tls = certificates(tmp_path)
    if cached:
        flags.append("--node-cache-capable")
    changes = {"filterVerb": "", "prioritizeVerb": "", "weight": 0, "preemptVerb": "preempt", **tls}
    with (
        Extender(tmp_path, story.kubeconfig, str(tmp_path / "preempting.py"), *flags) as extender,
        story.scheduler(caller, extender, nodeCacheCapable=cached, **changes),
    ):
        create(control_plane, story.namespace, "urgent", "high", cpu="4", priorityClassName="extender-urgent")
        node = "jsonpath={.spec.nodeName}"
        placed = wait_for(
            lambda: story.kubectl("get", "pod", "urgent", "-o", node), "urgent is bound", every=0.2
        )
    assert placed == "scheduler-2"
    left = story.kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.name}").split()
    assert left == ["low-scheduler-1", "urgent"]
    story.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")


def certificates(folder: Path) -> tuple[list[str], Tree]:
    """The flags of an extender that asks for certificates, and the configuration of a scheduler with one."""
    server, authority = make_certificates("127.0.0.1"), ClientAuthority()
    client = authority.issue("kube-scheduler")
    for name, data in {
        "server.crt": server.certificate,
        "server.key": server.key,
        "server-ca.crt": server.authority,
        "client.crt": client.certificate,
        "client.key": client.key,
        "client-ca.crt": authority.certificate,
    }.items():
        (folder / name).write_bytes(data)
    flags = [
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--client-ca-file={folder / 'client-ca.crt'}",
    ]
    files = {"caFile": "server-ca.crt", "certFile": "client.crt", "keyFile": "client.key"}
    return flags, {
        "enableHTTPS": True,
        "tlsConfig": {field: str(folder / name) for field, name in files.items()},
    }


PRIORITY = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: extender-urgent}
value: 1000
"""


def create(plane: ControlPlane, namespace: str, name: str, tier: str, cpu: str, **spec: Any) -> None:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    spec |= {"schedulerName": "i-scheduler-extender", "containers": [container]}
    body = {"metadata": {"name": name, "labels": {"tier": tier}}, "spec": spec}
    plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", json.dumps(body).encode())
