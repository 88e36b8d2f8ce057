"""A pytest plugin, loaded where Mooring is installed: the fixtures `mooring_cluster` and `mooring_api`.

@pytest.mark.mooring_cluster(nodes=5, plugins=[GpuPack])
def test_gpus(mooring_cluster):
    mooring_cluster.apply("train.yaml")
    mooring_cluster.wait_scheduled()


def test_namespaces(mooring_api):
    kubernetes.config.load_kube_config(mooring_api.kubeconfig)
    kubernetes.client.CoreV1Api().create_namespace({"metadata": {"name": "shop"}})
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mooring.testing.api_server import ApiServer
    from mooring.testing.sandbox_cluster import SandboxCluster


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "mooring_cluster(nodes, plugins, args, config, feature_gates, seed, start, live): "
        "arguments of that fixture",
    )


@pytest.fixture
def mooring_cluster(request: pytest.FixtureRequest) -> Iterator[SandboxCluster]:
    """A cluster in this process, in virtual time: three nodes, or as the mark `mooring_cluster` says."""
    from mooring.testing.sandbox_cluster import SandboxCluster  # imports most of Mooring, so only when used

    mark = request.node.get_closest_marker("mooring_cluster")
    arguments = ((), {}) if mark is None else (mark.args, mark.kwargs)
    with SandboxCluster(*arguments[0], **arguments[1]) as cluster:
        yield cluster


@pytest.fixture
def mooring_api() -> Iterator[ApiServer]:
    """An empty Kubernetes API server on a thread: `mooring_api.kubeconfig` is for any client."""
    from mooring.testing.api_server import ApiServer  # imports most of Mooring, so only when used

    with ApiServer() as server:
        yield server
