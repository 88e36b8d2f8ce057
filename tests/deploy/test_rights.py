"""On the embedded API server, which enforces roles: the ServiceAccount of deploy/ may do what Mooring does,
and nothing near it. (tests/live/test_rbac.py asks the same of a real API server.)"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.authorization.users import User
from tests.deploy.permissions import CLUSTER_WIDE, FORBIDDEN, LEASE, NEW_LEASE, Permission
from tests.deploy.rights import NODE, POD, SECOND, scheduler_command
from tests.sandbox.apiserver.kit import Running, running
from tests.sandbox.apiserver.kubectl import Kubectl, needs_kubectl

pytestmark = needs_kubectl

NAME = "system:serviceaccount:mooring:mooring"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:mooring", "system:authenticated")


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as found:
        yield found


@pytest.fixture(scope="module")
def kubectl(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    kubectl = Kubectl(server.server.kubeconfig, tmp_path_factory.mktemp("home"))
    kubectl("apply", "-k", str(SECOND))
    return kubectl


def may(server: Running, permission: Permission, namespace: str = "", name: str = "") -> bool:
    asked = Attributes(permission.verb, permission.group, permission.resource, namespace, name)
    return server.server.api.rbac.decide(User(NAME, GROUPS), asked).allowed


def test_what_is_needed_and_nothing_else(server: Running, kubectl: Kubectl) -> None:
    assert [one for one in CLUSTER_WIDE if not may(server, one)] == []
    assert [one for one in FORBIDDEN if may(server, one) or may(server, one, "mooring")] == []
    for permission in LEASE:
        assert may(server, permission, "mooring", "mooring")
        assert not may(server, permission, "mooring", "another")
    for permission in NEW_LEASE:
        assert may(server, permission, "mooring")
        assert not may(server, permission, "kube-system")


def test_the_scheduler_runs_with_these_rights(server: Running, kubectl: Kubectl, tmp_path: Path) -> None:
    """With the arguments and the configuration of the Deployment, a pod is bound and nothing is refused."""
    log = tmp_path / "log"
    run = scheduler_command(_kubeconfig(server, kubectl, tmp_path), tmp_path)
    kubectl("create", "-f", "-", stdin=yaml.safe_dump_all([NODE, POD]))
    with log.open("wb") as output:
        process = subprocess.Popen(run, stdout=output, stderr=output)
    try:
        kubectl("wait", "pod/rights", "--for=jsonpath={.spec.nodeName}=rights", "--timeout=40s", code=None)
        deadline = time.monotonic() + 10
        while "Scheduled" not in (events := kubectl("events", "--for=pod/rights")):
            assert time.monotonic() < deadline, log.read_text()
    finally:
        process.terminate()
        code = process.wait(30)
    told = log.read_text()
    assert "Successfully assigned default/rights to rights" in events
    assert "forbidden" not in told
    assert code == 0, told


def test_who_may_not_is_told(server: Running, kubectl: Kubectl, tmp_path: Path) -> None:
    limited = Kubectl(_kubeconfig(server, kubectl, tmp_path), tmp_path)
    told = limited("get", "secrets", "-n", "kube-system", code=1)
    assert told == (
        f'Error from server (Forbidden): secrets is forbidden: User "{NAME}" cannot list resource "secrets" '
        'in API group "" in the namespace "kube-system"'
    )


def _kubeconfig(server: Running, kubectl: Kubectl, folder: Path) -> Path:
    """That of the administrator, with the token of the account."""
    config = yaml.safe_load(Path(server.server.kubeconfig).read_text())
    token = kubectl("create", "token", "mooring", "--namespace", "mooring").strip()
    config["users"][0]["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path
