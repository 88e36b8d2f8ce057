"""OpenAPI over HTTP: forms, entity tags, and how long clients may keep documents."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from mooring.testing import VirtualClock
from tests.sandbox.apiserver.kit import Running, running

PATH = "apis/scheduling.k8s.io/v1"
PROTOBUF_V2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
PROTOBUF_V3 = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"


def address(server: Running) -> str:
    found: str = server.ask("GET", "/openapi/v3").tree["paths"][PATH]["serverRelativeURL"]
    return found


def test_a_document_at_the_address_of_the_index_never_changes(server: Running) -> None:
    reply = server.ask("GET", address(server))
    assert reply.tree["openapi"] == "3.0.0"
    assert reply.tree["info"] == {"title": "Kubernetes", "version": "v1.36.0+mooring"}
    assert not any(item.get("parameters") == [] for item in reply.tree["paths"].values())
    assert reply.headers["cache-control"] == "public, immutable"
    assert reply.headers["etag"] == f'"{address(server).partition("hash=")[2]}"'
    again = server.ask("GET", address(server), if_none_match=reply.headers["etag"])
    assert (again.code, again.text) == (304, "")


def test_it_may_be_kept_for_a_year() -> None:
    clock = VirtualClock()
    with running(clock=clock) as server:
        expires = parsedate_to_datetime(server.ask("GET", address(server)).headers["expires"])
    assert expires.timestamp() == int(clock() + 365 * 86400)


def test_a_document_without_hash_is_asked_for_again(server: Running) -> None:
    reply = server.ask("GET", f"/openapi/v3/{PATH}")
    assert (reply.code, reply.headers["cache-control"]) == (200, "no-cache, private")


def test_an_old_hash_leads_to_the_new_one(server: Running) -> None:
    reply = server.ask("GET", f"/openapi/v3/{PATH}?hash=OLD")
    assert (reply.code, reply.headers["location"]) == (301, address(server))


def test_what_is_not_there(server: Running) -> None:
    assert server.ask("GET", "/openapi/v3/apis/nothing/v1").code == 404
    assert server.ask("GET", "/openapi/v4").code == 404


def test_forms(server: Running) -> None:
    swagger = server.ask("GET", "/openapi/v2")
    assert swagger.tree["swagger"] == "2.0"
    assert server.ask("GET", "/openapi/v2", if_none_match=swagger.headers["etag"]).code == 304
    connection = server.connect()
    try:
        connection.request("GET", "/openapi/v2", headers=server.headers(Accept=PROTOBUF_V2))
        answer = connection.getresponse()
        assert answer.headers["content-type"] == PROTOBUF_V2.replace("@", ".")
        assert answer.read().startswith(b"\x0a\x032.0")
    finally:
        connection.close()
    assert server.ask("GET", "/openapi/v2", accept="text/html").code == 406
    assert server.ask("GET", f"/openapi/v3/{PATH}", accept=PROTOBUF_V3).code == 406


def test_it_is_for_those_who_may_ask(server: Running) -> None:
    connection = server.connect()
    try:
        connection.request("GET", "/openapi/v3", headers={"Authorization": "Bearer wrong"})
        assert connection.getresponse().status == 401
    finally:
        connection.close()
