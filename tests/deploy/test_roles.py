"""The roles of deploy/ grant exactly what Mooring does."""

from __future__ import annotations

import pytest

from tests.deploy.manifests import DEPLOY, OVERLAYS, Manifests, granted, render
from tests.deploy.permissions import CLUSTER_WIDE, ENDPOINTS, FORBIDDEN, LEASE, NEW_LEASE, VOLUME_BINDING

AUTH_DELEGATOR = ENDPOINTS  # what Kubernetes' own role of that name grants


@pytest.fixture(scope="module", params=OVERLAYS)
def manifests(request: pytest.FixtureRequest) -> Manifests:
    return render(DEPLOY / "overlays" / request.param)


def test_cluster_wide(manifests: Manifests) -> None:
    bound = {binding["roleRef"]["name"] for binding in manifests.of("ClusterRoleBinding")}
    own = [role for role in manifests.of("ClusterRole") if role["metadata"]["name"] in bound]
    found = granted(rule for role in own for rule in role["rules"])
    assert "system:auth-delegator" in bound
    assert found | AUTH_DELEGATOR == CLUSTER_WIDE


def test_volume_binding_can_be_left_out(manifests: Manifests) -> None:
    role = manifests.named("ClusterRole", "mooring-volume-binding")
    others = [other for other in manifests.of("ClusterRole") if other is not role]
    assert granted(role["rules"]) == VOLUME_BINDING
    assert not granted(rule for other in others for rule in other["rules"]) & VOLUME_BINDING


def test_the_lease(manifests: Manifests) -> None:
    rules = manifests.only("Role")["rules"]
    assert granted(rules) == NEW_LEASE
    (named,) = (rule for rule in rules if "resourceNames" in rule)
    assert granted([{key: named[key] for key in named.keys() - {"resourceNames"}}]) == LEASE


@pytest.mark.parametrize(("what", "root"), [("metrics", "/metrics"), ("decisions", "/debug/decisions")])
def test_metrics_and_decisions_are_for_whoever_is_bound_to_the_role(
    manifests: Manifests, what: str, root: str
) -> None:
    role = manifests.named("ClusterRole", f"mooring-{what}-reader")
    (rule,) = role["rules"]
    assert rule["verbs"] == ["get"]
    assert all(path.startswith(root) for path in rule["nonResourceURLs"])


def test_the_neighbours_are_not_among_them() -> None:
    assert not CLUSTER_WIDE & FORBIDDEN
