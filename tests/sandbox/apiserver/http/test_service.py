"""The API over HTTP: who is let in, what is said of what is served, how answers are written."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import stat
from typing import Any

import pytest

from mooring.sandbox.apiserver.http.service import _warnings
from mooring.serving.messages import Answer, Request
from tests.sandbox.apiserver.kit import Running, pod, running

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic eDp5", "Bearer", "Bearer \xff"])
def test_nobody_comes_in_without_the_token(server: Running, header: str | None) -> None:
    connection = server.connect()
    connection.request("GET", PODS, headers={"Authorization": header} if header is not None else {})
    answer = connection.getresponse()
    tree = json.loads(answer.read())
    connection.close()
    assert (answer.status, tree["reason"]) == (401, "Unauthorized")


def test_health_is_told_to_everybody(server: Running) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/readyz/ping"):
        connection = server.connect()
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"ok")
        connection.close()


def test_health_shows_each_check(server: Running) -> None:
    for name in ("healthz", "livez", "readyz"):
        text = server.ask("GET", f"/{name}?verbose").text
        assert text.startswith("[+]ping ok\n[+]log ok\n")
        assert "[+]etcd ok\n" in text
        assert "[+]poststarthook/rbac/bootstrap-roles ok\n" in text
        assert text.endswith(f"{name} check passed\n")
        assert server.ask("GET", f"/{name}/poststarthook/rbac/bootstrap-roles").text == "ok"
    assert "[+]etcd excluded: ok\n" in server.ask("GET", "/readyz?verbose&exclude=etcd").text
    assert 'kubernetes_healthcheck{name="etcd",type="livez"} 1.0' in server.ask("GET", "/metrics/slis").text


def test_results_of_health_checks_are_there_before_a_client_checks() -> None:
    with running() as server:
        assert 'name="etcd",type="readyz"} 1.0' in server.ask("GET", "/metrics/slis").text


def test_the_root_lists_paths_that_are_served(server: Running) -> None:
    paths = server.ask("GET", "/").tree["paths"]
    assert {"/api/v1", "/apis/apps", "/apis/apps/v1", "/readyz/etcd", "/openapi/v3/"} <= set(paths)
    assert paths == sorted(paths)
    assert [path for path in paths if server.ask("GET", path).code != 200] == []


def test_the_authority_of_client_certificates_is_published(server: Running) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    data = server.ask("GET", path).tree["data"]
    assert data["client-ca-file"] == data["requestheader-client-ca-file"] == server.server.authority.decode()


def test_the_kubeconfig_is_for_its_owner_only(server: Running) -> None:
    path = server.server.kubeconfig
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert server.server.token in path.read_text()


def test_it_listens_on_this_machine_only(server: Running) -> None:
    assert server.server.url.startswith("https://127.0.0.1:")


@pytest.mark.parametrize("path", ["/version", "/version/"])
def test_version(server: Running, path: str) -> None:
    tree = server.ask("GET", path).tree
    assert (tree["major"], tree["minor"]) == ("1", "36")


def test_others_in_the_process_are_asked_through_it(server: Running) -> None:
    async def page(request: Request) -> Answer:
        return Answer(body=f"{request.path} {request.query}".encode())

    server.server.pages.update({"/debug/things": page, "/debug/things/": page})
    assert server.ask("GET", "/debug/things?limit=1").text == "/debug/things {'limit': ['1']}"
    assert server.ask("GET", "/debug/things/a/b").text == "/debug/things/a/b {}"
    assert server.ask("GET", "/debug/thingsabout").code == 404
    assert server.ask("POST", "/debug/things").code == 404
    connection = server.connect()
    connection.request("GET", "/debug/things")
    assert connection.getresponse().status == 401
    connection.close()
    server.server.pages.clear()


# ---- discovery ------------------------------------------------------------------------------------


def test_discovery_names_groups_and_resources(server: Running) -> None:
    assert server.ask("GET", "/api").tree["versions"] == ["v1"]
    groups = {group["name"]: group for group in server.ask("GET", "/apis").tree["groups"]}
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert [one["version"] for one in groups["autoscaling"]["versions"]] == ["v2", "v1"]
    assert server.ask("GET", "/apis/apps").tree["kind"] == "APIGroup"
    core = {one["name"]: one for one in server.ask("GET", "/api/v1").tree["resources"]}
    assert core["pods"]["shortNames"] == ["po"]
    assert core["pods"]["categories"] == ["all"]
    assert core["pods/eviction"]["group"] == "policy"
    assert core["pods/binding"]["verbs"] == ["create"]
    assert core["namespaces"]["namespaced"] is False
    assert server.ask("GET", "/apis/none").code == 404
    assert server.ask("GET", "/apis/apps/v9").code == 404


def test_aggregated_discovery(server: Running) -> None:
    accept = (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
    )
    reply = server.ask("GET", "/apis", accept=accept)
    assert reply.tree["kind"] == "APIGroupDiscoveryList"
    assert "as=APIGroupDiscoveryList" in reply.headers["content-type"]
    apps = next(item for item in reply.tree["items"] if item["metadata"]["name"] == "apps")
    deployments = next(r for r in apps["versions"][0]["resources"] if r["resource"] == "deployments")
    assert [sub["subresource"] for sub in deployments["subresources"]] == ["scale", "status"]
    again = server.ask("GET", "/apis", accept=accept, if_none_match=reply.headers["etag"])
    assert (again.code, again.text) == (304, "")


# ---- answers --------------------------------------------------------------------------------------


def test_codes_and_bodies_of_a_life(server: Running) -> None:
    assert server.ask("POST", MAPS, {"metadata": {"name": "life"}}).code == 201
    reply = server.ask("GET", f"{MAPS}/life")
    assert (reply.code, reply.headers["content-type"]) == (200, "application/json")
    assert reply.tree["kind"] == "ConfigMap"
    assert server.ask("PUT", f"{MAPS}/life", reply.tree).code == 200
    merge = "application/merge-patch+json"
    assert server.ask("PATCH", f"{MAPS}/life", {"data": {"a": "b"}}, content_type=merge).code == 200
    listed = server.ask("GET", f"{MAPS}?fieldSelector=metadata.name%3Dlife").tree
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert "kind" not in listed["items"][0]
    assert server.ask("DELETE", f"{MAPS}/life").tree["status"] == "Success"
    missing = server.ask("GET", f"{MAPS}/life")
    assert missing.code == 404
    assert missing.tree == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "life" not found',
        "reason": "NotFound",
        "details": {"name": "life", "kind": "configmaps"},
        "code": 404,
    }


def test_a_dry_run_has_no_version(server: Running) -> None:
    """Neither in the kind that is stored nor in one that is converted."""
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "reportingController": "c",
    }
    event |= {"reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal"}
    for path, body in (
        ("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "dry"}}),
        ("/apis/events.k8s.io/v1/namespaces/default/events", event),
    ):
        made = server.ask("POST", f"{path}?dryRun=All", body)
        assert made.code == 201
        assert made.tree["metadata"]["uid"]
        assert "resourceVersion" not in made.tree["metadata"]
        assert server.ask("GET", f"{path}/{made.tree['metadata']['name']}").code == 404


def test_warnings_stand_in_the_header(server: Running) -> None:
    reply = server.ask("POST", f"{PODS}?dryRun=All", pod("warned", foo=1))
    assert reply.headers["warning"] == r'299 - "unknown field \"spec.foo\""'


def test_warnings_are_sent_once_and_not_without_limit() -> None:
    assert len(_warnings(["again", "again", "control\n", "other"])) == 2
    long = [f"{number} {'x' * 1000}" for number in range(100)]
    assert [len(text) for _, text in _warnings(long[:4])] == [len('299 - "0 "') + 1000] * 4
    assert [len(text) for _, text in _warnings(long)] == [len('299 - ""') + 256] * 16


def test_partial_metadata(server: Running) -> None:
    server.ask("POST", MAPS, {"metadata": {"name": "partial"}, "data": {"a": "b"}})
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    tree = server.ask("GET", MAPS, accept=accept).tree
    assert tree["kind"] == "PartialObjectMetadataList"
    item = next(one for one in tree["items"] if one["metadata"]["name"] == "partial")
    assert (item["kind"], "data" in item) == ("PartialObjectMetadata", False)
    protobuf = accept.replace("json", "vnd.kubernetes.protobuf")
    for item in server.ask("GET", MAPS, accept=f"{protobuf},{accept},application/json").tree["items"]:
        assert set(item) == {"metadata"}  # as in protobuf, so that client-go may compare with watch events


def test_yaml_is_read(server: Running) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\ndata: {a: '1'}\n"
    reply = server.ask("POST", MAPS, body, content_type="application/yaml")
    assert (reply.code, reply.tree["data"]) == (201, {"a": "1"})
    bomb = b"a: &a [x, x]\nb: [*a, *a]\n"
    assert server.ask("POST", MAPS, bomb, content_type="application/yaml").code == 400


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/zork", 404),
        ("GET", "/api/v1/zork", 404),
        ("GET", "/apis/none/v1/pods", 404),
        ("GET", f"{PODS}/a/zork", 404),
        ("GET", "/api/v1/pods/a", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("PUT", PODS, 405),
        ("POST", "/api/v1/pods", 405),
        ("POST", f"{PODS}/a", 405),
        ("PATCH", PODS, 405),
        ("DELETE", f"{PODS}/a/status", 405),
        ("GET", f"{PODS}?limit=x", 400),
        ("GET", f"{PODS}?watch=1&labelSelector=%3D", 400),
        ("GET", f"{PODS}?" + "&".join(f"a{i}=1" for i in range(200)), 400),
        ("GET", f"{PODS}?labelSelector=" + "a" * 20_000, 400),
    ],
)
def test_what_is_not_served(server: Running, method: str, path: str, code: int) -> None:
    assert server.ask(method, path, None if method == "GET" else {}).code == code


def test_media_types(server: Running) -> None:
    assert server.ask("POST", MAPS, b"{}", content_type="text/plain").code == 415
    assert server.ask("PATCH", f"{MAPS}/x", b"{}", content_type="application/json").code == 415
    assert server.ask("GET", MAPS, accept="image/png").code == 406


def test_bodies_are_bounded(server: Running) -> None:
    body = {"metadata": {"name": "big"}, "data": {"a": "x" * (3 * 1024 * 1024)}}
    assert server.ask("POST", MAPS, body).code == 413


def test_heads_are_bounded(server: Running) -> None:
    assert server.ask("GET", "/version", x_large="a" * 60_000).code == 200
    assert server.ask("GET", "/version", **{f"x_{i}": "a" * 8_000 for i in range(10)}).code == 431
    assert server.ask("GET", f"/version?{'a' * 70_000}").code == 431


# ---- watch ----------------------------------------------------------------------------------------


def test_a_watch_is_a_stream_of_lines(server: Running) -> None:
    version = server.ask("GET", MAPS).tree["metadata"]["resourceVersion"]
    connection = server.connect()
    connection.request("GET", f"{MAPS}?watch=true&resourceVersion={version}", headers=server.headers())
    stream = connection.getresponse()
    server.ask("POST", MAPS, {"metadata": {"name": "w"}})
    server.ask("DELETE", f"{MAPS}/w")
    events = [json.loads(stream.readline()) for _ in range(2)]
    connection.close()
    assert [event["type"] for event in events] == ["ADDED", "DELETED"]
    assert [event["object"]["metadata"]["name"] for event in events] == ["w", "w"]
    assert events[0]["object"]["kind"] == "ConfigMap"
    first, second = (int(event["object"]["metadata"]["resourceVersion"]) for event in events)
    assert first < second


def test_a_watch_that_comes_too_late_is_told_in_its_stream() -> None:
    with running(window=3) as server:
        for number in range(12):
            server.ask("POST", MAPS, {"metadata": {"name": f"n{number}"}})
        reply = server.ask("GET", f"{MAPS}?watch=true&resourceVersion=9")
        event = json.loads(reply.text)
        assert reply.code == 200
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == (
            "ERROR",
            410,
            "Expired",
        )


def test_a_client_that_goes_away_leaves_no_watch(server: Running) -> None:
    table = server.server.api.store.table("limitranges")
    connection = server.connect()
    path = "/api/v1/limitranges?watch=true"
    connection.request("GET", path, headers=server.headers())
    connection.getresponse()
    assert len(table.watches) == 1
    sock: Any = connection.sock
    if sock is not None:
        sock.close()
    connection.close()
    for _ in range(100):  # the server notices when the connection's end has arrived
        server.ask("GET", "/version")
        if not table.watches:
            break
    assert not table.watches


def test_stopping_ends_watches() -> None:
    with running() as server:
        connection = server.connect()
        connection.request("GET", f"{MAPS}?watch=true", headers=server.headers())
        stream = connection.getresponse()
    assert stream.read() == b""
    connection.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", connection.port), timeout=1)


def test_plain_http_is_not_served(server: Running) -> None:
    port = int(server.server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
        plain.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert not plain.recv(100).startswith(b"HTTP/1.1 200")


def test_the_certificate_is_checked(server: Running) -> None:
    port = int(server.server.url.rpartition(":")[2])
    context = ssl.create_default_context()
    with socket.create_connection(("127.0.0.1", port), timeout=5) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_timeouts_are_durations(server: Running) -> None:
    reply = server.ask("GET", f"{PODS}?timeout=invalid")
    expected = 'invalid timeout specified in the request URL - time: invalid duration "invalid"'
    assert (reply.code, reply.tree["message"]) == (400, expected)
    assert server.ask("GET", "/version?timeout=invalid").code == 400
    assert [server.ask("GET", f"{PODS}?timeout={text}").code for text in ("0s", "3m", "")] == [200] * 3
