"""On a real API server: the ServiceAccount of deploy/ may do what Mooring does, and nothing near it."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.api.kinds import WATCHED
from tests.deploy.manifests import DEPLOY, OVERLAYS, render
from tests.deploy.page import commands
from tests.deploy.permissions import CLUSTER_WIDE, FORBIDDEN, LEASE, NEW_LEASE, POD_GROUPS, Permission
from tests.deploy.rights import NODE, POD, SECOND, scheduler_command
from tests.live.control_plane import ControlPlane

INSTEAD = DEPLOY / "overlays" / "instead-of-kube-scheduler"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/mooring/leases"
REVIEWS = "/apis/authorization.k8s.io/v1"


def attributes(permission: Permission, namespace: str = "", name: str = "") -> dict[str, str]:
    """As reviews write it."""
    resource, _, subresource = permission.resource.partition("/")
    return {
        "verb": permission.verb,
        "group": permission.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }


class Account:
    """Mooring's ServiceAccount in a namespace: its token at work."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.server = plane.server
        self.token = plane.kubectl("create", "token", "mooring", "--namespace", namespace).strip()

    def request(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> int:
        """The status of the answer."""
        return self.ask(method, path, body, kind)[0]

    def may(self, permission: Permission, namespace: str = "", name: str = "") -> bool:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes(permission, namespace, name)},
        }
        status, answer = self.ask("POST", f"{REVIEWS}/selfsubjectaccessreviews", review)
        assert status == 201, answer
        return bool(answer["status"]["allowed"])

    def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, Any]:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=context, timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, json.load(refusal)


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl, which applies the manifests: put it on the PATH")
    return control_plane


@pytest.fixture(scope="module")
def account(plane: ControlPlane) -> Account:
    plane.kubectl("apply", "-k", str(SECOND))
    return Account(plane, "mooring")


# ---- what is needed


@pytest.mark.parametrize("permission", sorted(CLUSTER_WIDE), ids=" ".join)
def test_granted(account: Account, permission: Permission) -> None:
    assert account.may(permission)


@pytest.mark.parametrize("kind", WATCHED, ids=lambda kind: kind.name)
def test_every_kind_is_listed(account: Account, kind: Any) -> None:
    assert account.request("GET", f"{kind.path()}?limit=1") == 200


def test_the_lease_is_written(plane: ControlPlane, account: Account) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "mooring"}}
    status, created = account.ask("POST", LEASES, lease)
    assert status == 201
    assert account.request("GET", f"{LEASES}/mooring") == 200
    assert account.request("PUT", f"{LEASES}/mooring", {**created, "spec": {"holderIdentity": "a"}}) == 200
    assert account.request("DELETE", f"{LEASES}/mooring") == 403
    plane.kubectl("delete", "lease", "mooring", "--namespace", "mooring")


def test_the_scheduler_runs_with_these_rights(plane: ControlPlane, account: Account, tmp_path: Path) -> None:
    """With the arguments and the configuration of the Deployment, a pod is bound and nothing is refused."""
    log = tmp_path / "log"
    run = scheduler_command(plane.kubeconfig(token=account.token, name="mooring"), tmp_path)
    with log.open("wb") as output:
        process = subprocess.Popen(run, stdout=output, stderr=output)
    try:
        plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all([NODE, POD]))
        bound = "--for=jsonpath={.spec.nodeName}=rights"
        plane.kubectl("wait", "pod/rights", bound, "--timeout=40s", check=False)
    finally:
        process.terminate()
        code = process.wait(30)
    events = plane.kubectl("events", "--for=pod/rights", "--types=Normal")
    plane.kubectl("delete", "pod/rights", "--grace-period=0", "--force")  # no kubelet does it
    plane.kubectl("delete", "node/rights")
    told = log.read_text()
    assert "Successfully assigned default/rights to rights" in events, told
    assert "forbidden" not in told
    assert code == 0, told


# ---- and nothing else


@pytest.mark.parametrize("permission", sorted(FORBIDDEN), ids=" ".join)
def test_refused(account: Account, permission: Permission) -> None:
    assert not account.may(permission)
    assert not account.may(permission, namespace="mooring")


def test_refused_in_fact(account: Account) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "intruder"}}
    assert account.request("GET", "/api/v1/namespaces/kube-system/secrets") == 403
    assert account.request("POST", "/api/v1/namespaces/default/pods", pod) == 403
    assert account.request("DELETE", "/api/v1/nodes/some-node") == 403


def test_leases_of_others(account: Account) -> None:
    for permission in LEASE:
        assert account.may(permission, namespace="mooring", name="mooring")
        assert not account.may(permission, namespace="mooring", name="another")
        assert not account.may(permission, namespace="kube-system", name="kube-scheduler")
    for permission in NEW_LEASE:
        assert account.may(permission, namespace="mooring")
        assert not account.may(permission, namespace="kube-system")


def test_instead_of_kube_scheduler_it_may_take_that_lease(plane: ControlPlane) -> None:
    plane.kubectl("apply", "-k", str(INSTEAD))
    account = Account(plane, "kube-system")
    assert all(account.may(permission) for permission in CLUSTER_WIDE)
    for permission in LEASE:
        assert account.may(permission, namespace="kube-system", name="kube-scheduler")
        assert not account.may(permission, namespace="kube-system", name="kube-controller-manager")
    plane.kubectl("apply", "-k", str(SECOND))  # the bindings have the same names: back to who had them


def test_kube_schedulers_own_user_may_do_all_that_the_static_pod_does(plane: ControlPlane) -> None:
    # Its role names PodGroups only where the API server has their feature gate.
    refused = [p for p in sorted(CLUSTER_WIDE - POD_GROUPS) if not _user_may(plane, p)]
    refused += [p for p in LEASE if not _user_may(plane, p, "kube-system", "kube-scheduler")]
    refused += [p for p in NEW_LEASE if not _user_may(plane, p, "kube-system")]
    assert not refused


def _user_may(plane: ControlPlane, permission: Permission, namespace: str = "", name: str = "") -> bool:
    asked = attributes(permission, namespace, name)
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "system:kube-scheduler", "resourceAttributes": asked},
    }
    answer = plane.request("POST", f"{REVIEWS}/subjectaccessreviews", json.dumps(review).encode())
    return bool(json.loads(answer)["status"]["allowed"])


# ---- the manifests


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_api_server_takes_every_field(plane: ControlPlane, account: Account, overlay: str) -> None:
    folder = DEPLOY / "overlays" / overlay
    plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", str(folder))


def test_the_api_server_takes_every_field_of_the_static_pod(plane: ControlPlane) -> None:
    manifest = DEPLOY / "static-pod" / "mooring.yaml"
    plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(manifest))


def test_the_pod_keeps_to_the_restricted_standard(plane: ControlPlane, account: Account) -> None:
    """The namespace enforces it: the pod passes, and would not with a right more."""
    template = render(SECOND).only("Deployment")["spec"]["template"]
    metadata = {**template["metadata"], "name": "restricted", "namespace": "mooring"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod))
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(RuntimeError, match="violates PodSecurity"):
        plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod))


def test_the_commands_of_the_page(plane: ControlPlane) -> None:
    """Those of docs/deploy.md that need no more than an API server, in their order."""
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
    for command in commands():
        done = subprocess.run(
            command,
            shell=True,
            cwd=DEPLOY.parent,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    plane.kubectl("apply", "-k", str(SECOND))
