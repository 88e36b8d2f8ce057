"""Roles and bindings: how much work decisions are."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.dispatch import handle
from mooring.sandbox.apiserver.objects import encode_json
from mooring.sandbox.apiserver.verbs.request import Request
from tests.calls import count_calls
from tests.sandbox.apiserver.kit import Direct

GROUP = "rbac.authorization.k8s.io"
EVE = User("eve", ("system:authenticated",))


@pytest.fixture
def direct() -> Direct:
    """A cluster in which Eve may create roles, and do nothing else."""
    direct = Direct()
    rule = {"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["create"]}
    direct.ask("create", "roles", group=GROUP, body={"metadata": {"name": "maker"}, "rules": [rule]})
    subject = {"kind": "User", "name": "eve", "apiGroup": GROUP}
    ref = {"kind": "Role", "name": "maker", "apiGroup": GROUP}
    body = {"metadata": {"name": "maker"}, "roleRef": ref, "subjects": [subject]}
    direct.ask("create", "rolebindings", group=GROUP, body=body)
    return direct


def test_many_groups_read_the_bindings_once(direct: Direct) -> None:
    drafted, _ = direct.api.draft()
    user = User("x", tuple(f"g{number}" for number in range(1000)))
    asked = Attributes("get", "", "pods", "default")
    assert count_calls(lambda: drafted.rbac.decide(user, asked)) < 20_000


def create_role(direct: Direct, rules: list[dict[str, Any]]) -> str:
    resource = direct.api.registry.find(GROUP, "v1", "roles")
    assert resource is not None
    body = encode_json({"metadata": {"name": "new"}, "rules": rules})
    with pytest.raises(ApiError) as caught:
        handle(Request(direct.api, "create", resource, "default", "", EVE, None, {}, body, "", "test"))
    assert caught.value.code == 403
    return caught.value.message


def test_missing_rights_are_reported_by_resource(direct: Direct) -> None:
    rules = [
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["watch"]},
    ]
    assert create_role(direct, rules).partition("not currently held:\n")[2].splitlines() == [
        '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "list"]}',
        '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list" "watch"]}',
    ]


MANY = [f"x{number}" for number in range(500)]


@pytest.mark.parametrize(
    "rules",
    [
        [{"apiGroups": [group], "resources": MANY, "verbs": ["get"]} for group in MANY[:50]],
        [{"apiGroups": [""], "resources": MANY, "verbs": MANY}],
    ],
    ids=["many rules", "many verbs"],
)
def test_not_all_missing_rights_are_reported_if_there_are_very_many(
    direct: Direct, rules: list[dict[str, Any]]
) -> None:
    assert len(create_role(direct, rules)) < 200_000
