"""The extender's server under good and bad clients: methods, contents, sizes, TLS, health, its end."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest

from mooring import extender as ext
from mooring.api.objects import Node
from mooring.extender.serving import service
from mooring.extender.serving.process import open_to_others
from mooring.serving.certificates import KeyPair
from mooring.serving.settings import EndpointError, EndpointSettings
from tests.extender.serving_kit import Asked, extender, node, pod
from tests.serving.certificates import ClientAuthority, showing

JSON = {"Content-Type": "application/json"}


@ext.filter
def all_pass(nodes: list[Node]) -> list[Node]:
    return nodes


@ext.prioritize
def equal(node: Node) -> int:
    return 1


# ---- requests


def test_methods() -> None:
    with extender(all_pass) as it:
        for method in ("GET", "HEAD", "PUT", "DELETE"):
            reply = it.ask(method, "/filter")
            assert (reply.code, reply.headers["allow"]) == (405, "POST")
            assert method == "HEAD" or reply.error == f"method {method} is not allowed"
        reply = it.ask("POST", "/healthz", b"{}", **{"Content-Type": "application/json"})
        assert (reply.code, reply.headers["allow"]) == (405, "GET, HEAD")
        assert it.ask("HEAD", "/healthz").body == b""


def test_paths_that_lead_nowhere() -> None:
    with extender(all_pass) as it:
        reply = it.post("/prioritize", {})
        assert reply.code == 404
        assert reply.error == "path /prioritize not found; the paths are /filter, /healthz, /readyz, /metrics"


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"])
def test_other_contents(kind: str) -> None:
    with extender(all_pass) as it:
        reply = it.ask("POST", "/filter", b"{}", **({"content-type": kind} if kind else {}))
        assert (reply.code, reply.error) == (415, f'content type "{kind}" is not application/json')


def test_a_charset_does_no_harm() -> None:
    with extender(all_pass) as it:
        body = json.dumps({"Pod": pod(), "Nodes": {"items": []}}).encode()
        assert it.ask("POST", "/filter", body, content_type="application/json; charset=utf-8").code == 200


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/filter", b"", "ExtenderArgs: Input data was truncated"),
        ("/filter", b"{", "ExtenderArgs: Input data was truncated"),
        ("/filter", b"[]", "ExtenderArgs: Expected `object`, got `array`"),
        ("/filter", b"null", "Pod: required"),
        ("/filter", b'{"Pod":null}', "Pod: required"),
        ("/filter", b'{"Pod":{"metadata":{"name":1}}}', "Pod: "),
        ("/filter", b'{"Pod":{},"Nodes":{"items":[{"metadata":3}]}}', "Nodes: "),
        ("/filter", b'{"Pod":{},"Nodes":7}', "Nodes: "),
        ("/filter", b'{"Pod":{},"NodeNames":[1]}', "ExtenderArgs: Expected `str`, got `int`"),
        ("/filter", b'\xff\xfe{"Pod":{}}', "request body is not valid UTF-8"),
        ("/filter", b'{"Pod":{"metadata":{"name":"\xff"}}}', "request body is not valid UTF-8"),
        ("/filter", b'{"Pod":{"status":{"x":"\xed\xa0\x80"}}}', "request body is not valid UTF-8"),
        ("/bind", b'{"PodName":"\xff"}', "request body is not valid UTF-8"),
        ("/preempt", b'{"Pod":{"spec":{"nodeName":"\xc3"}}}', "request body is not valid UTF-8"),
        ("/filter", b'{"Pod":{"spec":' + b"[" * 900 + b"]" * 900 + b"}}", "Pod: "),
        ("/filter", b"[" * 100_000, "ExtenderArgs: "),
        (
            "/bind",
            b'{"PodName":"p","PodNamespace":"","Node":"n"}',
            "PodNamespace: required",
        ),
        ("/preempt", b'{"Pod":{},"NodeNameToVictims":{"n":1}}', "ExtenderPreemptionArgs: "),
    ],
)
def test_bodies_that_make_no_sense(path: str, body: bytes, said: str) -> None:
    @ext.bind
    def bind(pod: Any, node: str) -> None: ...

    @ext.preempt
    def preempt(victims: Any) -> Any:
        return victims

    with extender(all_pass, bind, preempt) as it:
        reply = it.ask("POST", path, body, content_type="application/json")
        assert reply.code == 400
        assert reply.error.startswith(said)
        assert it.filter(pod(), node("a"))["Error"] == ""  # and it goes on


def test_keys_in_any_case_as_go_reads_them() -> None:
    with extender(all_pass) as it:
        reply = it.post("/filter", {"pod": pod(), "nodes": {"items": [node("a")]}, "more": 1})
        assert [each["metadata"]["name"] for each in reply.tree["Nodes"]["items"]] == ["a"]


def test_bodies_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LARGEST_BODY", 1000)
    with extender(all_pass) as it:
        connection = it.connect()
        connection.putrequest("POST", "/filter")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "1001")
        connection.endheaders()  # the body itself is never sent
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("connection")) == (413, "close")
        assert json.loads(answer.read()) == {"Error": "request body exceeds 1000 bytes"}
        connection.close()
        connection = it.connect()
        chunks = iter([b"x" * 400] * 10)
        try:
            connection.request("POST", "/filter", chunks, JSON, encode_chunked=True)
        except OSError:
            pass  # it may not even want to hear the end
        else:
            assert connection.getresponse().status == 413
        connection.close()
        assert it.filter(pod(), node("a"))["Error"] == ""


def test_one_connection_for_many_requests() -> None:
    with extender(all_pass) as it:
        connection = it.connect()
        for _ in range(3):
            connection.request("POST", "/filter", json.dumps({"Pod": pod()}), JSON)
            assert connection.getresponse().read().startswith(b'{"Nodes":null')
        own = connection.sock
        assert own is not None
        connection.close()


def test_clients_that_go_away_in_the_middle(caplog: pytest.LogCaptureFixture) -> None:
    with extender(all_pass) as it:
        with socket.create_connection(("127.0.0.1", it.port)) as client:
            client.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
            client.sendall(b"Content-Length: 100\r\n\r\n{")
        assert it.filter(pod(), node("a"))["Error"] == ""
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


# ---- health, metrics, log


def test_health() -> None:
    with extender(all_pass) as it:
        for path in ("/healthz", "/livez", "/readyz"):
            assert it.ask("GET", path).body == b"ok"


def test_metrics() -> None:
    @ext.filter("/broken")
    def broken(nodes: list[Node]) -> Any:
        raise RuntimeError("no")

    with extender(all_pass, broken) as it:
        it.filter(pod(), node("a"))
        it.filter(pod(), node("a"), path="/broken")
        it.ask("GET", "/filter")
        it.ask("GET", "/nowhere")
        lines = it.ask("GET", "/metrics").body.decode().splitlines()
    told = dict(line.rsplit(" ", 1) for line in lines if line.startswith("mooring_extender"))
    for name, value in {
        'requests_total{code="200",path="/filter",verb="filter"}': "1.0",
        'requests_total{code="200",path="/broken",verb="filter"}': "1.0",
        'requests_total{code="405",path="/filter",verb="filter"}': "1.0",
        'requests_total{code="404",path="",verb=""}': "1.0",
        'errors_total{path="/broken",verb="filter"}': "1.0",
        'request_duration_seconds_count{path="/filter",verb="filter"}': "1.0",
    }.items():
        assert told[f"mooring_extender_{name}"] == value
    assert 'mooring_extender_errors_total{path="/filter",verb="filter"}' not in told


def test_requests_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO - 2, "mooring.extender"), extender(all_pass) as it:
        it.filter(pod("web"), node("a"), node("b"))
        it.ask("GET", "/filter")
    told = [record.__dict__.get("fields") for record in caplog.records if record.name == "mooring.extender"]
    answered, refused = [fields for fields in told if fields is not None]
    assert answered["milliseconds"] > 0
    assert {name: answered[name] for name in ("verb", "path", "pod", "answer")} == {
        "verb": "filter",
        "path": "/filter",
        "pod": "default/web",
        "answer": "2 of 2 nodes",
    }
    assert refused == {"method": "GET", "path": "/filter", "code": 405, "error": "method GET is not allowed"}


# ---- TLS


class Certificates:
    """An authority for servers and clients alike, in files."""

    def __init__(self, folder: Path) -> None:
        self.authority = ClientAuthority()
        pair: KeyPair = self.authority.issue("server")
        self.files = {}
        for name, data in (("cert", pair.certificate), ("key", pair.key), ("ca", self.authority.certificate)):
            self.files[name] = str(folder / f"{name}.pem")
            Path(self.files[name]).write_bytes(data)

    @property
    def serving(self) -> dict[str, Any]:
        return {"tls_cert_file": self.files["cert"], "tls_private_key_file": self.files["key"]}

    def anonymous(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.files["ca"])
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def test_https(certificates: Certificates) -> None:
    with extender(all_pass, tls=certificates.anonymous(), **certificates.serving) as it:
        assert it.process.url.startswith("https://")
        assert it.filter(pod(), node("a"))["Error"] == ""


def test_client_certificates(certificates: Certificates) -> None:
    serving = {**certificates.serving, "client_ca_file": certificates.files["ca"]}
    with extender(all_pass, tls=certificates.anonymous(), **serving) as it:
        reply = it.post("/filter", {"Pod": pod()})
        assert (reply.code, reply.error) == (401, "client certificate with a common name required")
        assert it.ask("GET", "/metrics").code == 401
        assert it.ask("GET", "/healthz").code == 200  # probes have none
        it.tls = showing(certificates.authority.issue("kube-scheduler"))
        assert it.filter(pod(), node("a"))["Error"] == ""
        it.tls = showing(ClientAuthority("strangers").issue("kube-scheduler"))
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            it.post("/filter", {"Pod": pod()})


def test_settings_that_make_no_sense(certificates: Certificates) -> None:
    with (
        pytest.raises(EndpointError, match="--client-ca-file requires --tls-cert-file"),
        extender(all_pass, client_ca_file=certificates.files["ca"]),
    ):
        pass
    with (
        pytest.raises(EndpointError, match="--tls-cert-file requires --tls-private-key-file"),
        extender(all_pass, tls_cert_file=certificates.files["cert"]),
    ):
        pass


@pytest.mark.parametrize(
    ("address", "authorities", "is_open"),
    [
        ("127.0.0.1", "", False),
        ("::1", "", False),
        ("0.0.0.0", "", True),
        ("192.0.2.7", "", True),
        ("0.0.0.0", "ca.pem", False),
    ],
)
def test_who_is_answered_without_being_known(address: str, authorities: str, is_open: bool) -> None:
    settings = EndpointSettings(bind_address=address, client_ca_file=authorities)
    assert open_to_others(settings) is is_open


# ---- the end


def test_what_is_being_answered_at_the_end_is_answered() -> None:
    begun, release = threading.Event(), threading.Event()

    @ext.filter
    async def slow(nodes: list[Node]) -> list[Node]:
        begun.set()
        await asyncio.to_thread(release.wait, 10)
        return nodes

    found: list[int] = []

    def ask(it: Asked) -> None:
        many = [node(f"n{i}", note="x" * 50) for i in range(3000)]  # more than fits into a socket
        result = it.filter(pod(), *many)
        found.append(len(result["Nodes"]["items"]))

    with extender(slow) as it:
        client = threading.Thread(target=ask, args=(it,))
        client.start()
        assert begun.wait(20)
        threading.Timer(0.2, release.set).start()
    client.join(20)
    assert found == [3000]
    with pytest.raises(ConnectionRefusedError):
        it.connect().connect()
