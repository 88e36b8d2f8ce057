"""The fixtures for tests of operators: clients that others wrote reach an API server, or a whole cluster."""

from __future__ import annotations

import os
import threading
from importlib import import_module
from typing import Any

import pytest

from mooring.testing.api_server import ApiServer
from mooring.testing.sandbox_cluster import SandboxCluster

lightkube: Any = pytest.importorskip("lightkube", reason="lightkube is not installed")

WEB: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "nginx"}]},
        },
    },
}


def connect(kubeconfig: str) -> Any:
    return lightkube.Client(config=lightkube.KubeConfig.from_file(kubeconfig), namespace="default")


def resource(module: str, name: str) -> Any:
    return getattr(import_module(f"lightkube.resources.{module}"), name)


def test_a_client_reads_what_it_wrote_and_no_controller_acts_on_it(mooring_api: ApiServer) -> None:
    deployments, pods = resource("apps_v1", "Deployment"), resource("core_v1", "Pod")
    with connect(mooring_api.kubeconfig) as client:
        client.create(deployments.from_dict(WEB))
        assert client.get(deployments, "web").spec.replicas == 2
        assert [*client.list(pods)] == []


@pytest.mark.slow  # importing this client takes seconds
def test_the_client_in_the_guide(mooring_api: ApiServer) -> None:
    kubernetes: Any = pytest.importorskip("kubernetes", reason="the kubernetes client is not installed")
    kubernetes.config.load_kube_config(mooring_api.kubeconfig)
    core, watch = kubernetes.client.CoreV1Api(), kubernetes.watch.Watch()
    started = core.list_namespace().metadata.resource_version
    core.create_namespace({"metadata": {"name": "shop"}})
    event = next(watch.stream(core.list_namespace, resource_version=started))
    watch.stop()
    assert (event["type"], event["object"].metadata.name) == ("ADDED", "shop")


def test_servers_are_separate_and_nothing_of_them_stays(mooring_api: ApiServer) -> None:
    with ApiServer() as other:
        assert other.url != mooring_api.url
        threads = threading.active_count()
        path = other.kubeconfig
    assert not os.path.exists(path)
    assert threading.active_count() < threads


@pytest.mark.mooring_cluster(nodes=2, live=True)
def test_a_client_uses_a_live_cluster(mooring_cluster: SandboxCluster) -> None:
    with connect(mooring_cluster.kubeconfig) as client:
        client.create(resource("apps_v1", "Deployment").from_dict(WEB))
        mooring_cluster.wait(lambda: sum(pod.ready for pod in mooring_cluster.pods("app=web")) == 2)
        pods = [*client.list(resource("core_v1", "Pod"))]
    assert {pod.spec.nodeName for pod in pods} == {"node-1", "node-2"}
    assert {pod.status.phase for pod in pods} == {"Running"}
    texts = [mooring_cluster.explain(pod.metadata.name) for pod in pods]
    choices = {text.partition(": ")[2].partition(",")[0] for text in texts}
    assert choices == {"one of 2 best among 2 that fit", "best of 2 that fit"}  # first and second pod


def test_a_cluster_in_virtual_time_has_no_kubeconfig(mooring_cluster: SandboxCluster) -> None:
    with pytest.raises(RuntimeError, match="live=True"):
        _ = mooring_cluster.kubeconfig
