"""Clients that mean harm, or are merely broken: they are refused or dropped, and others notice nothing."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mooring.sandbox.apiserver.http import limits, service
from tests.sandbox.apiserver.kit import Running, pod, running

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
IDLE_WATCHES = int(os.environ.get("MOORING_IDLE_WATCHES", "200"))
UNCHECKED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # loading authorities takes longer than a request
UNCHECKED.check_hostname, UNCHECKED.verify_mode = False, ssl.CERT_NONE


def raw_request(server: Running, path: str, *, receive_buffer: int = 0) -> ssl.SSLSocket:
    """A connection that has asked for a path and read nothing yet."""
    plain = socket.socket()
    if receive_buffer:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    plain.settimeout(30)
    plain.connect(("127.0.0.1", int(server.server.url.rpartition(":")[2])))
    secured = UNCHECKED.wrap_socket(plain)
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.server.token}\r\n\r\n"
    secured.sendall(head.encode())
    return secured


@contextlib.contextmanager
def watches(server: Running, path: str, count: int) -> Iterator[list[ssl.SSLSocket]]:
    """Watches that are known to have begun."""
    open_ones: list[ssl.SSLSocket] = []
    try:
        for _ in range(count):
            open_ones.append(raw_request(server, path))
            assert open_ones[-1].recv(4096).startswith(b"HTTP/1.1 200")
        yield open_ones
    finally:
        for one in open_ones:
            one.close()


def limited(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
    """Give clients less time, and look after them more often."""
    monkeypatch.setattr(limits, "LIMITS", replace(limits.LIMITS, sweep_seconds=0.05, **seconds))


# ---- who is let in --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/version", "/api", "/apis", PODS, f"{PODS}?watch=1", "/openapi/v2", "/x"])
@pytest.mark.parametrize(
    "given", [{}, {"Authorization": "Bearer x"}, {"Authorization": "Bearer " + "x" * 43}]
)
def test_nothing_is_told_without_the_token(server: Running, path: str, given: dict[str, str]) -> None:
    connection = server.connect()
    connection.request("GET", path, headers=given)
    answer = connection.getresponse()
    tree = json.loads(answer.read())
    connection.close()
    assert answer.status == 401
    assert (tree["kind"], tree["code"], tree["reason"]) == ("Status", 401, "Unauthorized")


# ---- what is too large ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        (f"{PODS}?labelSelector={'a' * 20_000}", {}, 400),
        (f"{PODS}?fieldSelector={'a' * 20_000}", {}, 400),
        (f"{PODS}?" + "&".join(f"a{number}=1" for number in range(200)), {}, 400),
        (f"{PODS}/{'a' * 70_000}", {}, 431),
        (PODS, {f"x_{number}": "a" * 8_000 for number in range(10)}, 431),
        (PODS, {f"x_{number}": "" for number in range(20_000)}, 431),
    ],
    ids=["label selector", "field selector", "parameters", "URL", "headers", "many headers"],
)
def test_requests_are_bounded(server: Running, path: str, headers: dict[str, str], code: int) -> None:
    reply = server.ask("GET", path, **headers)
    assert reply.code == code
    assert (reply.tree["kind"], reply.tree["code"]) == ("Status", code)
    assert server.ask("GET", "/version").code == 200


def test_bodies_are_bounded(server: Running) -> None:
    reply = server.ask("POST", MAPS, b'{"data":"' + b"x" * service.LARGEST_BODY + b'"}')
    assert (reply.code, reply.tree["kind"], reply.tree["reason"]) == (413, "Status", "RequestEntityTooLarge")


def test_what_is_no_http_is_told_so(server: Running) -> None:
    connection = server.connect()
    connection.connect()
    connection.sock.sendall(b"\x16\x03 nonsense\r\n\r\n")
    answer = connection.sock.recv(10_000)
    connection.close()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["kind"] == "Status"


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"metadata":' * 50_000, b'{"data":{"a":"\xff"}}', b"\x00"]
)
@pytest.mark.parametrize("media", ["application/json", "application/yaml", "application/merge-patch+json"])
def test_bodies_that_break_decoders(server: Running, body: bytes, media: str) -> None:
    patch = media.endswith("patch+json")
    path = f"{MAPS}/kube-root-ca.crt" if patch else MAPS
    reply = server.ask("PATCH" if patch else "POST", path, body, content_type=media)
    assert reply.code in (400, 404, 413, 422)
    assert reply.tree["kind"] == "Status"


def flat_yaml(values: int) -> bytes:
    return b"data:\n" + b"".join(b"  k%d: v\n" % number for number in range(values))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (flat_yaml(10_000), 400),
        (b"metadata: {name: text}\ndata:\n  a: " + b"x" * 500_000, 201),
        (b"metadata: {name: text}\ndata:\n  a: " + b"x" * 600_000, 400),
        (b"---\n" * 100_000, 400),
        (b"a: [" + b"[" * 300 + b"]" * 300 + b"]", 400),
        (b"a: &a [x]\nb: *a", 400),
    ],
    ids=["many values", "long text", "too long", "many documents", "deep", "aliases"],
)
def test_yaml_that_would_take_long_to_read_is_refused(server: Running, body: bytes, code: int) -> None:
    """Nobody else is answered while YAML is read, which takes many times as long as JSON."""
    assert server.ask("POST", MAPS, body, content_type="application/yaml").code == code


# ---- what is too slow -----------------------------------------------------------------------------


def everything(connection: ssl.SSLSocket) -> bytes:
    """What comes until the other side closes."""
    received = bytearray()
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(100_000):
            received += data
    return bytes(received)


def connect(server: Running, sent: bytes) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", int(server.server.url.rpartition(":")[2])), 30)
    secured = UNCHECKED.wrap_socket(plain)
    secured.sendall(sent)
    return secured


def post(server: Running, media: str, length: int) -> bytes:
    lines = (
        f"POST {MAPS} HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {server.server.token}",
        f"Content-Type: {media}",
        f"Content-Length: {length}",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_requests_that_do_not_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, head_seconds=0.2, request_seconds=0.2)
    with running() as server:
        good = post(server, "application/json", 1000)
        for sent in (b"", b"GET /version HTTP/1.1\r\nHost:", good, good + b'{"metadata"'):
            with connect(server, sent) as connection:
                answer = everything(connection)
            assert answer.startswith(b"HTTP/1.1 408 "), sent
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == 408
        refused = post(server, "application/json", 10_000_000).replace(b"Bearer", b"Nobody")
        with connect(server, refused) as connection:  # told at once, and then not waited for either
            assert everything(connection).startswith(b"HTTP/1.1 401 ")
        with connect(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") as connection:
            assert everything(connection).startswith(b"HTTP/1.1 200 ")


def test_half_a_request_is_none(server: Running) -> None:
    """A client that dies while it writes YAML, which makes sense wherever it is cut off."""
    sent = b"metadata: {name: half}\ndata:\n  a: b\n"
    connect(server, post(server, "application/yaml", 2 * len(sent)) + sent).close()
    for _ in range(20):
        assert server.ask("GET", "/version").code == 200
    assert server.ask("GET", f"{MAPS}/half").code == 404


def test_connections_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_CONNECTIONS", 3)
    with running() as server, watches(server, f"{MAPS}?watch=true", 2):
        with contextlib.ExitStack() as idle:
            for _ in range(3):  # the oldest idle one makes room for the next
                idle.enter_context(connect(server, b""))
            assert server.ask("GET", "/version").code == 200
        with (
            watches(server, f"{MAPS}?watch=true", 1),
            pytest.raises((ssl.SSLError, ConnectionError)),  # in the words of the platform
        ):
            connect(server, b"")
        for _ in range(100):  # until the server has noticed that one is gone
            with contextlib.suppress(OSError):
                if server.ask("GET", "/version").code == 200:
                    return
        pytest.fail("no client is let in any more")


AS_ANOTHER = {"Impersonate-User": "another", "Impersonate-Group": "system:masters"}


# ---- watches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["MOST_WATCHES", "MOST_WATCHES_OF_USER"])
def test_watches_are_counted(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, limit, 3)
    with running() as server:
        path = f"{MAPS}?watch=true"
        with watches(server, path, 3) as open_ones:
            reply = server.ask("GET", path)
            assert (reply.code, reply.tree["reason"]) == (429, "TooManyRequests")
            assert int(reply.headers["retry-after"]) >= 1
            other = server.ask("GET", f"{path}&timeoutSeconds=1", **AS_ANOTHER)
            assert other.code == (429 if limit == "MOST_WATCHES" else 200)
            open_ones.pop().close()
            for _ in range(100):  # until the server has noticed
                code = server.ask("GET", f"{path}&timeoutSeconds=1").code
                if code == 200:
                    break
            assert code == 200


def test_idle_watches_stall_nobody(server: Running) -> None:
    """All hear of a write, and those that the write does not concern cost it nothing."""
    path = f"{MAPS}?watch=true&fieldSelector=metadata.name%3Dbell"
    with watches(server, path, IDLE_WATCHES) as open_ones:
        for number in range(20):
            assert server.ask("POST", MAPS, {"metadata": {"name": f"other-{number}"}}).code == 201
        assert server.ask("POST", MAPS, {"metadata": {"name": "bell"}}).code == 201
        heard = [one.recv(100_000) for one in open_ones]
    assert all(b'"name":"bell"' in one and b"other-" not in one for one in heard)


def fill(server: Running, name: str, writes: int) -> None:
    """Many large changes, more than what lies between a server and a client that does not read."""
    for number in range(writes):
        body = {"metadata": {"name": name, "labels": {"n": str(number)}}, "data": {"a": "x" * 500_000}}
        assert server.ask("PUT" if number else "POST", f"{MAPS}/{name}" if number else MAPS, body).code < 300


def test_a_slow_watcher_is_dropped_and_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, send_seconds=0.2)
    with running() as server:
        table = server.server.api.store.table("configmaps")
        slow = raw_request(server, f"{MAPS}?watch=true", receive_buffer=4096)
        try:
            with watches(server, f"{PODS}?watch=true", 1) as (other,):
                fill(server, "large", 60)
                assert server.ask("POST", PODS, pod("p")).code == 201
                assert b'"ADDED"' in other.recv(100_000)
                for _ in range(1000):
                    if not table.watches:
                        break
                    assert server.ask("GET", "/version").code == 200
                assert not table.watches
        finally:
            slow.close()


def test_a_watcher_that_falls_out_of_the_window_is_told() -> None:
    with running(window=5) as server:
        slow = raw_request(server, f"{MAPS}?watch=true", receive_buffer=4096)
        fill(server, "large", 60)
        received = bytearray()
        with contextlib.suppress(TimeoutError):
            while data := slow.recv(1_000_000):
                received += data
                if b'"type":"ERROR"' in received:
                    break
        slow.close()
    assert b'"code":410' in received


def test_a_list_that_nobody_reads_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, send_seconds=0.2)
    with running() as server:
        for number in range(30):
            fill(server, f"large-{number}", 1)
        slow = raw_request(server, MAPS, receive_buffer=4096)
        connections: Any = server.server._server.connections  # type: ignore[union-attr]
        for _ in range(1000):
            if server.ask("GET", "/version").code == 200 and len(connections) <= 1:
                break
        slow.close()
        assert len(connections) <= 1


# ---- nonsense -------------------------------------------------------------------------------------

WORDS = (
    "api apis v1 apps namespaces default pods nodes deployments status scale binding eviction log openapi "
    "v2 v3 version customresourcedefinitions"
)
words = st.sampled_from(["", *WORDS.split()])
texts = st.text(max_size=20)
FIELDS = (
    "metadata name namespace labels annotations finalizers ownerReferences uid managedFields fieldsV1 spec "
    "status resourceVersion generateName containers image replicas selector matchLabels template tolerations "
    "resources requests limits cpu taints capacity target kind apiVersion op path value $patch $retainKeys"
)
fields = st.sampled_from(FIELDS.split())
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
quantities = st.sampled_from(["1", "-1", "1e999999999", "9" * 400, "1Gi", "0.0000000000001", "", "x"])
values = st.recursive(
    scalars | quantities,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | fields, inner, max_size=3),
    max_leaves=8,
)
objects = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries({"name": st.sampled_from(["a", "b"]) | texts})
        | st.dictionaries(fields, values, max_size=4)
        | values,
        "spec": st.dictionaries(fields, values, max_size=4) | values,
        "status": st.dictionaries(fields, values, max_size=4) | values,
        "kind": st.sampled_from(["Pod", "Node", "Status"]) | scalars,
        "apiVersion": st.sampled_from(["v1", "apps/v1"]) | scalars,
    },
)
PARAMETERS = (
    "limit continue resourceVersion resourceVersionMatch labelSelector fieldSelector timeoutSeconds dryRun "
    "force sendInitialEvents allowWatchBookmarks fieldManager fieldValidation gracePeriodSeconds "
    "propagationPolicy orphanDependents includeObject"
)
VALUES = ("a=b", "a in (b", "!a", "metadata.name=a", "-1", "0", "9" * 5000, "true", "All")
parameters = st.dictionaries(st.sampled_from(PARAMETERS.split()), texts | st.sampled_from(VALUES), max_size=3)
MEDIA = (
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "text/plain",
)
ACCEPT = (
    "application/json",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
)
COLLECTIONS = (
    PODS,
    MAPS,
    "/api/v1/nodes",
    "/api/v1/namespaces",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/api/v1/namespaces/default/serviceaccounts",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
)
bounded = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)


def check(server: Running, method: str, path: str, body: bytes | None = None, **headers: str) -> None:
    reply = server.ask(method, path, body, **headers)
    assert reply.code < 500 or reply.code == 504, f"{method} {path} {body!r}: {reply}"
    if reply.code >= 400 and reply.headers.get("content-type") == "application/json" and method != "HEAD":
        assert (reply.tree["kind"], reply.tree["code"]) == ("Status", reply.code)


@bounded
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]),
    parts=st.lists(words | texts, max_size=8),
    query=parameters,
    accept=st.sampled_from(ACCEPT),
)
def test_paths_and_queries_of_nonsense(
    server: Running, method: str, parts: list[str], query: dict[str, str], accept: str
) -> None:
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    text = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    check(server, method, f"{path}?{text}", accept=accept)


@bounded
@given(
    method=st.sampled_from(["POST", "PUT", "PATCH", "DELETE"]),
    collection=st.sampled_from(COLLECTIONS),
    part=st.sampled_from(["", "", "", "/status", "/scale", "/binding", "/eviction", "/token", "/exec"]),
    query=parameters,
    body=objects | st.lists(st.dictionaries(fields, values, max_size=4), max_size=3) | values,
    media=st.sampled_from(MEDIA),
)
def test_bodies_of_nonsense(
    server: Running, method: str, collection: str, part: str, query: dict[str, str], body: Any, media: str
) -> None:
    path = collection if method == "POST" and not part else f"{collection}/a{part}"
    text = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    check(server, method, f"{path}?{text}", json.dumps(body).encode(), content_type=media)


@bounded
@given(
    body=st.binary(max_size=200),
    media=st.sampled_from(MEDIA),
    method=st.sampled_from(["POST", "PATCH", "PUT", "DELETE"]),
)
def test_bytes_of_nonsense(server: Running, body: bytes, media: str, method: str) -> None:
    prefix = b"k8s\x00" if "protobuf" in media else b""
    path = PODS if method == "POST" else f"{PODS}/a"
    check(server, method, path, prefix + body, content_type=media)


def test_a_selector_of_many_terms_disturbs_nobody(server: Running) -> None:
    terms = quote(",".join(["metadata.name!="] * 1020), safe="=!,")
    server.ask("POST", PODS, pod("first"))
    with (
        watches(server, f"{PODS}?watch=1&fieldSelector={terms}", 1) as (strange,),
        watches(server, f"{PODS}?watch=1", 1) as (plain,),
    ):
        server.ask("POST", PODS, pod("second"))
        for one in (strange, plain):
            seen = b""
            while b'"second"' not in seen:
                seen += one.recv(65536)
