"""The account of pods, and its token in their containers."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.admission.plugins import default_admission
from tests.sandbox.apiserver.kit import Direct, pod

Tree = dict[str, Any]
PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
SOURCES = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {"downwardAPI": {"items": [{
        "path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
    }]}},
]  # fmt: skip


@pytest.fixture
def accounts(direct: Direct) -> Direct:
    direct.api.admission = default_admission()
    for name, more in (("default", {}), ("quiet", {"automountServiceAccountToken": False})):
        direct.ask("create", "serviceaccounts", body={"metadata": {"name": name}, **more})
    return direct


def spec_of(direct: Direct, name: str, **spec: Any) -> Tree:
    made: Tree = direct.tree("create", "pods", body=pod(name, **spec))["spec"]
    return made


def test_pods_get_the_default_account_and_its_token(accounts: Direct) -> None:
    containers = [{"name": name, "image": "i"} for name in ("a", "b")]
    spec = spec_of(accounts, "p", containers=containers, initContainers=[{"name": "c", "image": "i"}])
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert volume["projected"] == {"sources": SOURCES, "defaultMode": 0o644}
    mount = {"name": volume["name"], "readOnly": True, "mountPath": PATH}
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["volumeMounts"] == [mount]


@pytest.mark.parametrize(
    ("spec", "mounted"),
    [
        ({"serviceAccountName": "quiet"}, False),
        ({"serviceAccountName": "quiet", "automountServiceAccountToken": True}, True),
        ({"automountServiceAccountToken": False}, False),
    ],
)
def test_the_pod_decides_before_the_account_about_the_token(
    accounts: Direct, spec: Tree, mounted: bool
) -> None:
    made = spec_of(accounts, "p", **spec)
    assert ("volumes" in made) == mounted
    assert ("volumeMounts" in made["containers"][0]) == mounted


def test_what_containers_mount_at_the_path_stays(accounts: Direct) -> None:
    mount = {"name": "own", "mountPath": PATH}
    containers = [{"name": "c", "image": "i", "volumeMounts": [mount]}]
    spec = spec_of(accounts, "p", containers=containers, volumes=[{"name": "own", "emptyDir": {}}])
    assert spec["containers"][0]["volumeMounts"] == [mount]
    assert [volume["name"] for volume in spec["volumes"]] == ["own"]


def test_a_missing_account_is_rejected_except_the_default_one(accounts: Direct) -> None:
    with pytest.raises(ApiError) as caught:
        accounts.ask("create", "pods", body=pod("p", serviceAccountName="ghost"))
    assert (caught.value.code, caught.value.message) == (
        403,
        'pods "p" is forbidden: error looking up service account default/ghost: '
        'serviceaccount "ghost" not found',
    )
    made = accounts.tree("create", "pods", body=pod("p"), namespace="kube-public")
    assert made["spec"]["serviceAccountName"] == "default"


def test_replicas_follow_changes_of_their_account(accounts: Direct) -> None:
    for name in ("a", "b", "c"):  # from the third on, the kept outcome is used
        assert "volumes" in spec_of(accounts, name)
    change = {"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "key"}]}
    accounts.ask("update", "serviceaccounts", "default", {**change, "automountServiceAccountToken": False})
    spec = spec_of(accounts, "d")
    assert "volumes" not in spec
    assert spec["imagePullSecrets"] == [{"name": "key"}]


def test_mirror_pods_use_no_account(accounts: Direct) -> None:
    body = pod("p", nodeName="n")
    body["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert "serviceAccountName" not in accounts.tree("create", "pods", body=body)["spec"]
    body["spec"]["serviceAccountName"] = "default"
    with pytest.raises(ApiError, match="a mirror pod may not reference service accounts"):
        accounts.ask("create", "pods", body={**body, "metadata": {**body["metadata"], "name": "q"}})
