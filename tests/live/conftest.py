"""One control plane, or one cluster, for all tests of this folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.manifests import DEPLOY
from tests.live.cluster import TestCluster
from tests.live.control_plane import HOW_TO_GET, ControlPlane, assets
from tests.live.replica import Replica, configuration
from tests.live.scene import Scene

SCHEDULER = "mooring-test"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With --dist=loadgroup, one worker runs all that need a control plane, so that there is only one."""
    for item in items:
        if {"control_plane", "cluster"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group("control-plane"))


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """For tests that kill things, or start others beside them."""
    if os.environ.get("MOORING_TEST_KUBECONFIG"):
        pytest.skip(
            "kills things, or needs the API server's own records, which is not for the cluster that "
            "MOORING_TEST_KUBECONFIG names: unset it, and set KUBEBUILDER_ASSETS"
        )
    binaries = assets()
    if binaries is None:
        pytest.skip(HOW_TO_GET)
    folder: Path = tmp_path_factory.mktemp("control-plane")
    plane = ControlPlane(binaries, folder)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestCluster]:
    """For tests that need no more than a cluster; with the roles of deploy/."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl: put it on the PATH")
    given = os.environ.get("MOORING_TEST_KUBECONFIG")
    kubeconfig = Path(given) if given else request.getfixturevalue("control_plane").kubeconfig()
    found = TestCluster(kubeconfig, tmp_path_factory.mktemp("cluster"))
    found.kubectl("apply", "-k", str(DEPLOY / "overlays" / "second-scheduler"))
    yield found
    found.api.close()


@pytest.fixture(scope="session")
def kubeconfig(cluster: TestCluster) -> Path:
    """That of the ServiceAccount of deploy/."""
    return cluster.kubeconfig(token=cluster.token("mooring", "mooring"))


@pytest.fixture(scope="session")
def scheduler(cluster: TestCluster, kubeconfig: Path) -> Iterator[Replica]:
    """A scheduler for all tests that need none of their own."""
    with Replica(cluster.folder, configuration(kubeconfig, SCHEDULER)) as replica:
        yield replica.ready()
        assert replica.end() == 0, replica.log


@pytest.fixture(scope="module")
def claim_controller(request: pytest.FixtureRequest) -> Iterator[None]:
    """kube-controller-manager's resourceclaim controller; an existing cluster has it."""
    if os.environ.get("MOORING_TEST_KUBECONFIG"):
        yield
        return
    plane: ControlPlane = request.getfixturevalue("control_plane")
    if not plane.has("kube-controller-manager"):
        pytest.skip("needs kube-controller-manager: put it into KUBEBUILDER_ASSETS")
    plane.start_controller_manager("resourceclaim-controller")
    yield
    plane.stop_controller_manager()


@pytest.fixture
def scene(cluster: TestCluster) -> Iterator[Scene]:
    made = Scene(cluster, "scene", SCHEDULER)
    try:
        yield made
    finally:
        made.clear()


@pytest.fixture(scope="module")
def groups_plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """With the alpha API of groups and the module's GATES; the others' has what is on by default."""
    binaries = assets()
    if binaries is None:
        pytest.skip(HOW_TO_GET)
    flags = (f"--feature-gates={request.module.GATES}", "--runtime-config=scheduling.k8s.io/v1alpha2=true")
    plane = ControlPlane(binaries, tmp_path_factory.mktemp("groups-plane"), flags)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="module")
def groups_cluster(
    groups_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestCluster]:
    """The cluster of that control plane, with the roles of deploy/."""
    cluster = TestCluster(groups_plane.kubeconfig(), tmp_path_factory.mktemp("groups-cluster"))
    cluster.kubectl("apply", "-k", str(DEPLOY / "overlays" / "second-scheduler"))
    yield cluster
    cluster.api.close()
