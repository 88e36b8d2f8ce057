"""Nodes may read what the pods bound to them use, and nothing else."""

from __future__ import annotations

import pytest

from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.authorization.users import User
from tests.sandbox.apiserver.kit import Direct, pod

NODE = User("system:node:n", ("system:nodes", "system:authenticated"))
UNRELATED = "no relationship found between node 'n' and this object"


@pytest.fixture
def kubelet(direct: Direct) -> Direct:
    volumes = [
        {"name": "a", "secret": {"secretName": "mounted"}},
        {"name": "b", "projected": {"sources": [{"configMap": {"name": "projected"}}]}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "claimed"}},
        {"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}}},
    ]  # fmt: skip
    env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "variable", "key": "a"}}}]
    fields = {
        "volumes": volumes,
        "imagePullSecrets": [{"name": "pulled"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
        "containers": [{"name": "c", "image": "i", "env": env}],
        "serviceAccountName": "robot",
    }
    for name, node in (("p", "n"), ("other", "m")):
        direct.ask("create", "pods", body=pod(name, nodeName=node, **(fields if node == "n" else {})))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    body = {"metadata": {"name": "claimed"}, "spec": {**claim, "volumeName": "disk"}}
    direct.ask("create", "persistentvolumeclaims", body=body)
    return direct


@pytest.mark.parametrize(
    "what",
    [
        "secrets/mounted", "secrets/variable", "secrets/pulled", "configmaps/projected", "pods/p",
        "persistentvolumeclaims/claimed", "persistentvolumeclaims/p-d", "persistentvolumes/disk",
        "resourceclaims/gpu", "serviceaccounts/robot",
    ],
)  # fmt: skip
def test_what_pods_of_the_node_use(kubelet: Direct, what: str) -> None:
    resource, _, name = what.partition("/")
    group = "resource.k8s.io" if resource == "resourceclaims" else ""
    namespace = "" if resource == "persistentvolumes" else "default"
    decide = kubelet.api.rbac.decide
    attributes = Attributes("get", group, resource, namespace, name)
    assert decide(NODE, attributes).allowed
    assert not decide(NODE._replace(name="system:node:m"), attributes).allowed
    assert not decide(NODE._replace(groups=()), attributes).allowed
    if namespace:
        assert not decide(NODE, attributes._replace(namespace="other")).allowed


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        (Attributes("get", "", "secrets", "default", "other"), UNRELATED),
        (Attributes("get", "", "pods", "default", "other"), UNRELATED),
        (Attributes("list", "", "secrets", "default"), "No Object name found"),
        (Attributes("delete", "", "secrets", "default", "mounted"), "can only read resources of this type"),
        (
            Attributes("list", "", "persistentvolumes", "", "disk"),
            "can only get individual resources of this type",
        ),
        (Attributes("get", "", "nodes", "", "n"), ""),
    ],
)
def test_what_is_not_of_the_node(kubelet: Direct, attributes: Attributes, reason: str) -> None:
    assert kubelet.api.rbac.decide(NODE, attributes) == (False, reason)
