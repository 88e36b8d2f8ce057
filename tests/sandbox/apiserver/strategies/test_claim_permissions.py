"""Who may write the status of the devices of a claim."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.authorization.users import NODE_NAME, User, service_account
from tests.sandbox.apiserver.kit import Direct

GROUP, ROLES = "resource.k8s.io", "rbac.authorization.k8s.io"
DRIVER = service_account("default", "driver")
DEVICE = {"driver": "d", "pool": "p", "device": "x"}


def on(*nodes: str) -> User:
    """The driver with the token of a pod on a node."""
    return DRIVER._replace(extra=((NODE_NAME, nodes),))


def allow(direct: Direct, *verbs: str) -> None:
    """Let the driver write the status of claims, and that of its devices with `verbs`."""
    rules = [
        {"apiGroups": [GROUP], "resources": ["resourceclaims/status"], "verbs": ["patch"]},
        {
            "apiGroups": [GROUP],
            "resources": ["resourceclaims/driver"],
            "verbs": verbs,
            "resourceNames": ["d"],
        },
    ]
    direct.ask("create", "clusterroles", group=ROLES, body={"metadata": {"name": "r"}, "rules": rules})
    binding = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": ROLES, "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "driver", "namespace": "default"}],
    }
    direct.ask("create", "clusterrolebindings", group=ROLES, body=binding)


def allocate(direct: Direct, *nodes: str) -> None:
    """Create a claim that has a device of these nodes."""
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    direct.ask("create", "resourceclaims", group=GROUP, body=claim)
    field = {"key": "metadata.name", "operator": "In", "values": nodes}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    result = {"request": "r", **DEVICE}
    patch(direct, {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}})


def patch(direct: Direct, status: Any, **options: Any) -> None:
    merge = "application/merge-patch+json"
    direct.ask(
        "patch", "resourceclaims", "c", {"status": status}, group=GROUP, subresource="status",
        content_type=merge, **options,
    )  # fmt: skip


def report(direct: Direct, user: User) -> None:
    direct.user = user
    patch(direct, {"devices": [DEVICE]})


def test_a_driver_on_the_node_needs_the_right_for_its_own_node(direct: Direct) -> None:
    allow(direct, "associated-node:patch")
    allocate(direct, "a")
    report(direct, on("a"))


@pytest.mark.parametrize("user", [DRIVER, on("b"), on("a", "a"), User("jo", extra=((NODE_NAME, ("a",)),))])
def test_others_need_the_right_for_all_nodes(direct: Direct, user: User) -> None:
    allow(direct, "associated-node:patch")
    allocate(direct, "a")
    with pytest.raises(ApiError, match=r'verb="\[arbitrary-node:patch\]" permission'):
        report(direct, user)


def test_the_right_for_all_nodes_suffices(direct: Direct) -> None:
    allow(direct, "arbitrary-node:patch")
    allocate(direct, "a")
    report(direct, on("a"))


def test_without_a_right_the_error_names_both(direct: Direct) -> None:
    allow(direct, "get")
    allocate(direct, "a")
    both = r'verb="\[associated-node:patch arbitrary-node:patch\]"'
    with pytest.raises(ApiError, match=rf"{both} permission: .* cannot associated-node:patch"):
        report(direct, on("a"))
