"""Tokens of service accounts: whom they let in, and for how long."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from mooring.sandbox.apiserver.accounts import AUDIENCE, user_of
from mooring.sandbox.apiserver.authorization.users import ADMIN
from tests.sandbox.apiserver.kit import Direct, Running, pod

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture
def robot(direct: Direct) -> Direct:
    direct.ask("create", "serviceaccounts", body={"metadata": {"name": "robot"}})
    return direct


def token(direct: Direct, **spec: Any) -> str:
    answer = direct.tree("create", "serviceaccounts", "robot", {"spec": spec}, subresource="token")
    found: str = answer["status"]["token"]
    return found


def test_a_token_is_of_its_account(robot: Direct) -> None:
    user = user_of(robot.api, token(robot))
    assert user is not None
    assert user.name == "system:serviceaccount:default:robot"
    assert "system:serviceaccounts:default" in user.groups
    assert user_of(robot.api, robot.api.token) == ADMIN


def test_a_token_ends(robot: Direct) -> None:
    found = token(robot, expirationSeconds=600)
    robot.clock.advance(599)
    assert user_of(robot.api, found) is not None
    robot.clock.advance(1)
    assert user_of(robot.api, found) is None


def test_a_token_ends_with_its_account(robot: Direct) -> None:
    found = token(robot)
    robot.ask("delete", "serviceaccounts", "robot")
    assert user_of(robot.api, found) is None
    robot.ask("create", "serviceaccounts", body={"metadata": {"name": "robot"}})
    assert user_of(robot.api, found) is None, "another account of the same name"


def test_a_token_ends_with_what_it_is_bound_to(robot: Direct) -> None:
    robot.ask("create", "pods", body=pod("p", serviceAccountName="robot"))
    found = token(robot, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    assert user_of(robot.api, found) is not None
    robot.ask("delete", "pods", "p")
    assert user_of(robot.api, found) is None


def test_a_token_says_what_it_is_bound_to(robot: Direct) -> None:
    robot.ask("create", "nodes", body={"metadata": {"name": "n"}})
    body = pod("p", serviceAccountName="robot", nodeName="n")
    robot.ask("create", "pods", body=body)
    found = token(robot, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    user = user_of(robot.api, found)
    assert user is not None
    uids = {kind: robot.tree("get", kind, name)["metadata"]["uid"] for kind, name in
            (("pods", "p"), ("nodes", "n"), ("serviceaccounts", "robot"))}  # fmt: skip
    assert user.info["uid"] == uids["serviceaccounts"]
    extra = {name.partition("/")[2]: values for name, values in user.info["extra"].items()}
    assert extra.pop("credential-id")[0].startswith("JTI=")
    assert extra == {
        "node-name": ["n"],
        "node-uid": [uids["nodes"]],
        "pod-name": ["p"],
        "pod-uid": [uids["pods"]],
    }
    robot.ask("delete", "nodes", "n")
    assert user_of(robot.api, found) is not None  # only the pod keeps it valid


def test_tokens_for_others_are_not_for_us(robot: Direct) -> None:
    assert user_of(robot.api, token(robot, audiences=["example.com"])) is None
    assert user_of(robot.api, token(robot, audiences=["example.com", AUDIENCE])) is not None


def test_tokens_that_somebody_made_up(robot: Direct) -> None:
    head, claims, signature = token(robot).split(".")
    changed = json.loads(base64.urlsafe_b64decode(claims + "=="))
    changed["kubernetes.io"]["serviceaccount"]["name"] = "admin"
    forged = base64.urlsafe_b64encode(json.dumps(changed).encode()).rstrip(b"=").decode()
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    for made in (
        f"{head}.{forged}.{signature}",
        f"{none}.{claims}.",
        f"{head}.{claims}",
        f"{head}.{claims}.",
        f"{head}..{signature}",
        "..",
        "",
        "ÿ.é.ñ",
        "\udcff",
    ):
        assert user_of(robot.api, made) is None, made


def test_a_token_is_reviewed(robot: Direct) -> None:
    def review(text: str, **spec: Any) -> Any:
        body = {"spec": {"token": text, **spec}}
        return robot.tree("create", "tokenreviews", body=body, group="authentication.k8s.io")["status"]

    good = review(token(robot))
    assert good["authenticated"] is True
    assert good["user"]["username"] == "system:serviceaccount:default:robot"
    assert review(robot.api.token)["user"]["username"] == ADMIN.name
    assert "authenticated" not in review("nonsense")
    assert "authenticated" not in review(token(robot), audiences=["example.com"])


def test_an_account_comes_in(server: Running) -> None:
    server.ask("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    made = server.ask("POST", f"{ACCOUNTS}/robot/token", {"spec": {"audiences": []}})
    assert made.code == 201
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    bearer = f"Bearer {made.tree['status']['token']}"
    told = server.ask("POST", path, {}, Authorization=bearer)
    assert told.tree["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
    impersonated = {"Impersonate-User": "jane", "Impersonate-Uid": "7", "Impersonate-Extra-Team%2fName": "a"}
    info = server.ask("POST", path, {}, **impersonated).tree["status"]["userInfo"]
    groups = ["system:authenticated"]
    assert info == {"username": "jane", "uid": "7", "groups": groups, "extra": {"team/name": ["a"]}}
    assert server.ask("DELETE", f"{ACCOUNTS}/robot").code == 200
    assert server.ask("GET", ACCOUNTS, Authorization=bearer).code == 401
