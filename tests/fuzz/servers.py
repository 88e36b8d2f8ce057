"""Targets: what clients send to our servers."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Mapping
from typing import Any, cast

import uvicorn
from uvicorn.server import ServerState

from mooring import extender
from mooring.core.build import registry_with
from mooring.extender.serving.handlers import handlers_of
from mooring.extender.serving.metrics import ExtenderMetrics
from mooring.extender.serving.offer import Offer, Served
from mooring.extender.serving.service import ExtenderService
from mooring.sandbox.apiserver.context.drafting import LARGE
from mooring.sandbox.apiserver.http.service import ApiService
from mooring.sandbox.apiserver.kinds.protobuf import ProtobufError, decode, open_envelope
from mooring.sandbox.apiserver.kinds.types import object_type
from mooring.serving.connection import Connection
from mooring.serving.exchange import Application, Service
from mooring.serving.limits import Limits
from mooring.serving.shared_turns import SharedTurns
from tests.fuzz.clients import Transport, loop
from tests.fuzz.mutation import mutate_bytes, mutate_json, mutate_text
from tests.fuzz.target import target, untimed
from tests.sandbox.apiserver import patch_replay, write_replay
from tests.sandbox.apiserver.kit import Direct
from tests.sandbox.apiserver.patch_replay import DATA, PATCHES, Step

_TOKEN = "t"
_TURNS = 60
"""Turns of the event loop for one request. Whatever still runs then, such as a watch, is cut off."""
_RENEW_AFTER = 2000
"""Requests after which a target gets a new API server, so that created objects do not pile up."""


class Failures(logging.Handler):
    """Keeps the exceptions that loggers get from servers, which contain them."""

    def __init__(self, *names: str) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[BaseException] = []
        for name in names:
            logging.getLogger(name).addHandler(self)
            logging.getLogger(name).propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])


_failures = Failures("mooring.serving", "mooring.extender", "asyncio")


class Talk:
    """A server without sockets: bytes in, bytes out."""

    def __init__(
        self, service: Service, limits: Limits | None = None, loop: asyncio.AbstractEventLoop = loop
    ) -> None:
        self._service = service
        self._limits = limits or Limits()
        self._loop = loop
        self.unfinished = 0
        self._config = uvicorn.Config(
            Application(service),
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
        )
        self._config.load()

    def __call__(self, data: bytes) -> bytes:
        """Return the answers. Raises what the server logs as its failure."""
        _failures.errors.clear()
        half = 1 + len(data) // 2
        pause = 0 if len(data) < LARGE else 0.1  # large bodies are handled in a thread
        written = self._loop.run_until_complete(self.exchange(data[:half], data[half:], pause=pause))
        if _failures.errors:
            raise _failures.errors[0]
        return written

    async def exchange(self, *pieces: bytes, between: float = 0, pause: float = 0) -> bytes:
        """Send pieces with so many seconds `between` them, and return the answers. Each turn of the loop in
        which the server is waited for takes a `pause`. `unfinished` is set to the number of requests that it
        still handles when the client has left."""
        state, transport = ServerState(), Transport()
        error = self._service.error
        connection = Connection(self._config, state, self._limits, error, lambda _: None, SharedTurns())
        connection.connection_made(cast(asyncio.Transport, transport))
        for piece in pieces:
            if piece and not transport.closed:
                connection.data_received(piece)
            await asyncio.sleep(between)
        for _ in range(_TURNS):
            if transport.closed or not state.tasks:
                break
            await asyncio.sleep(pause)
        connection.connection_lost(None)
        for _ in range(_TURNS):
            if not state.tasks:
                break
            await asyncio.sleep(pause)
        self.unfinished = len(state.tasks)
        for task in list(state.tasks):
            task.cancel()
        await asyncio.sleep(0)
        return bytes(transport.written)


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: a",
        *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items()),
    ]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "replace") + body


_ALSO_IN_KUBERNETES = b"failed to allocate requested HealthCheck NodePort"
"""In the one answer of kube-apiserver with the code 500 for which the client is to blame."""


def _status(answer: bytes) -> str:
    """Return code and message of the first answer; 500 is a failure."""
    head, _, body = answer.partition(b"\r\n\r\n")
    code = head[9:12].decode(errors="replace")
    assert code != "500" or _ALSO_IN_KUBERNETES in body, body.decode(errors="replace")
    try:
        tree = json.loads(body) if body.startswith(b"{") else {}
    except ValueError:
        return code
    return f"{code} {tree.get('message') or tree.get('kind') or tree.get('Error')}"


# ---- the API server -------------------------------------------------------------------------------


class _Server:
    """An API server with the objects of recorded scenes, made again after some requests."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self._left = 0
        self._talk = cast(Talk, None)

    def __call__(self, data: bytes) -> bytes:
        if not self._left:
            with untimed():
                self._renew()
        self._left -= 1
        return self._talk(data)

    def _renew(self) -> None:
        self._left = _RENEW_AFTER
        direct = Direct()
        direct.api.token = _TOKEN
        direct.store.soon = loop.call_soon
        self._talk = Talk(ApiService(direct.api, {"gitVersion": "v1.36.0"}))
        for step in self._steps:
            self._talk(_recorded(step))


def _recorded(step: Step) -> bytes:
    return request(
        step.method, step.path, step.body or b"",
        authorization=f"Bearer {_TOKEN}", content_type=step.content_type, user_agent=step.agent,
    )  # fmt: skip


def _document(step: Step) -> bytes:
    """Return a request as JSON, so that mutations change its parts."""
    try:
        body: Any = json.loads(step.body or b"null")
    except ValueError:
        body = (step.body or b"").decode()
    return json.dumps(
        {"method": step.method, "path": step.path, "type": step.content_type, "body": body}
    ).encode()


def _send(server: _Server, data: bytes) -> str:
    """Send the request that a document describes."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        tree = {"method": "POST", "path": "/api/v1/namespaces", "type": "application/json", "body": None}
    if not isinstance(tree, dict):
        return "no request"
    method, path, kind, accept = (line_of(tree.get(key)) for key in ("method", "path", "type", "accept"))
    body = json.dumps(tree.get("body")).encode()
    if not method.isalpha() or not path.startswith("/"):
        return "no request"
    headers = {
        "authorization": f"Bearer {_TOKEN}",
        "content_type": kind,
        "accept": accept or "application/json",
    }
    return f"{method} {_status(server(request(method, path, body, **headers)))}"


def line_of(value: object) -> str:
    """Return a value as it may stand in a head."""
    text = value if isinstance(value, str) else json.dumps(value) if value is not None else ""
    return "".join(character for character in text if character.isprintable() and not character.isspace())[
        :2000
    ]


_WRITES = [
    step
    for scene, steps in write_replay.all_scenes().items()
    for step in (write_replay.making_namespace(scene), *steps)
    if step.method not in (write_replay.PAUSE, "DELETE")
]
_PATCH_STEPS = [step for steps in patch_replay.scenes().values() for step in steps]
_server = _Server(_WRITES)
_patched = _Server([step for step in _PATCH_STEPS if step.method == "POST"])
_API_WORDS = (
    "metadata", "name", "namespace", "labels", "annotations", "finalizers", "ownerReferences",
    "resourceVersion",
    "uid", "generateName", "managedFields", "spec", "status", "template", "containers", "image", "resources",
    "requests", "limits", "cpu", "memory", "selector", "matchLabels", "matchExpressions", "operator",
    "values", "In",
    "replicas", "ports", "port", "targetPort", "nodePort", "protocol", "TCP", "volumes", "securityContext",
    "runAsUser", "env", "valueFrom", "apiVersion", "kind", "dryRun", "All", "fieldManager", "force",
    "rules", "verbs",
    "type", "hard", "schedule", "completions", "parallelism", "subjects", "roleRef", "data", "immutable",
)  # fmt: skip


@target("api-writes", mutate_json, [_document(step) for step in _WRITES], _API_WORDS)
def write_object(data: bytes) -> object:
    return _send(_server, data)


@target(
    "patches",
    mutate_json,
    [_document(step) for step in _PATCH_STEPS if step.method == "PATCH"],
    [*_API_WORDS, *PATCHES.values(), "$patch", "$retainKeys", "$deleteFromPrimitiveList/finalizers",
     "$setElementOrder/containers", "replace", "merge", "delete", "op", "add", "remove", "test", "copy",
     "move", "from",
     "path", "value", "/spec/replicas", "/metadata/labels", "/spec/template/spec/containers/0", "/-", "~1",
     "~0"],
)  # fmt: skip
def patch_object(data: bytes) -> object:
    return _send(_patched, data)


_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def _reading(path: str, accept: str = "", method: str = "GET") -> bytes:
    return json.dumps({"method": method, "path": path, "accept": accept, "body": None}).encode()


@target(
    "api-reads",
    mutate_json,
    [
        *[_reading(step.path, accept) for step in _WRITES[::7] for accept in ("", _TABLE)],
        _reading("/api/v1/pods?labelSelector=a%20in%20(b),!c&fieldSelector=status.phase!=Failed&limit=2"),
        _reading("/api/v1/namespaces?limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", _TABLE),
        _reading("/api/v1/pods?watch=true&resourceVersion=0&timeoutSeconds=1&allowWatchBookmarks=true"),
        _reading("/api/v1/services?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
        _reading("/apis/apps/v1/deployments?resourceVersion=5&resourceVersionMatch=Exact"),
        _reading("/apis?timeout=1s", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
        _reading("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
        _reading("/openapi/v3/apis/apps/v1?hash=a"),
        _reading("/version/"),
        _reading("/readyz?verbose"),
        _reading("/api/v1/namespaces/default/pods?propagationPolicy=Foreground&dryRun=All", method="DELETE"),
    ],
    ["watch=true", "&", "=", "?", "/", "%", "%2F", "%00", "labelSelector=", "fieldSelector=", "limit=",
    "continue=",
     "resourceVersion=", "resourceVersionMatch=Exact", "timeoutSeconds=", "sendInitialEvents=true",
     "includeObject=Object",
     "pods", "status", "scale", "log", "exec", "binding", "eviction", "token", "default", "kube-system",
     "api", "apis",
     "v1", "apps", _TABLE, "application/yaml", "application/vnd.kubernetes.protobuf", ";as=", ";q=0.5", ",",
     "*/*"],
)  # fmt: skip
def read_objects(data: bytes) -> object:
    return _send(_server, data)


@target(
    "http",
    mutate_text,
    [
        request("GET", "/api/v1/namespaces?limit=3", authorization=f"Bearer {_TOKEN}"),
        request("GET", "/version", authorization=f"Bearer {_TOKEN}") * 3,
        request("POST", "/api/v1/namespaces", b'{"metadata":{"name":"a"}}', authorization=f"Bearer {_TOKEN}"),
        request("GET", "/readyz", connection="close", accept="text/plain"),
        request("HEAD", "/api/v1/pods", authorization=f"Bearer {_TOKEN}", impersonate_user="a",
        impersonate_group="b"),
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\nTransfer-Encoding: "
        b"chunked\r\n\r\n"
        b'19\r\n{"metadata":{"name":"a"}}\r\n0\r\nX: y\r\n\r\n',
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"GET /a HTTP/1.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /api/v1/pods HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n{}  ",
    ],
    ["\r\n", "\r\n\r\n", "\n", " ", ":", "HTTP/1.1", "HTTP/9.9", "GET", "POST", "CONNECT",
    "Content-Length: 5\r\n",
     "Content-Length: -1\r\n", "Transfer-Encoding: chunked\r\n", "Connection: Upgrade\r\n",
     "Expect: 100-continue\r\n",
     "Host: \r\n", "Authorization: Bearer t\r\n", "Impersonate-Extra-a: b\r\n", "Impersonate-User: a\r\n",
     "//", "/../", "%", "%zz", "?", "http://a/", "*", "\x00", "X" * 40000, "ffffffffffffffff\r\n", "0\r\n"],
)  # fmt: skip
def serve_http(data: bytes) -> object:
    return _status(_server(data))


@target(
    "yaml-requests",
    mutate_text,
    [
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {a: b}\ndata:\n"
        "  a: |\n    b\n  c: 'd'\n",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: !!str 1, b: 0o7, c: 1_000, d: ~}}",
    ],
    ["!!int ", "!!float ", "!!timestamp ", "!!binary ", "!!set ", "!!omap ", "!!pairs ", "&a ", "*a",
    "<<: ", "? ", ": ",
     "- ", "\n", "  ", "|", ">-", "'", '"', "%TAG ! x\n", "---\n", "0x", "1:30", ".inf", ".nan",
     "2020-01-01"],
)  # fmt: skip
def post_yaml(data: bytes) -> object:
    """Create an object from YAML, and apply it."""
    path = "/api/v1/namespaces/default/configmaps"
    token = f"Bearer {_TOKEN}"
    created = request("POST", path, data, authorization=token, content_type="application/yaml")
    applied = request(
        "PATCH",
        f"{path}/a?fieldManager=a",
        data,
        authorization=token,
        content_type="application/apply-patch+yaml",
    )
    return _status(_server(created)) + _status(_server(applied))


# ---- protobuf -------------------------------------------------------------------------------------

_TYPES = (
    ("core_v1", "Pod"),
    ("core_v1", "Node"),
    ("core_v1", "Service"),
    ("apps_v1", "Deployment"),
    ("apiextensions_v1", "CustomResourceDefinition"),
    ("meta_v1", "DeleteOptions"),
    ("core_v1", "Event"),
    ("core_v1", "ConfigMap"),
)


def _field(number: int, value: bytes | int) -> bytes:
    """Encode one field; of a length or number below 16,384."""
    size = value if isinstance(value, int) else len(value)
    key = bytes([number << 3 | (0 if isinstance(value, int) else 2)])
    varint = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return key + varint + (b"" if isinstance(value, int) else value)


_METADATA = _field(
    1,
    _field(1, b"name")
    + _field(3, b"space")
    + _field(8, _field(1, 5))
    + _field(11, _field(1, b"k") + _field(2, b"v")),
)
_PODS = _METADATA + _field(
    2,
    _field(2, _field(1, b"c") + _field(8, _field(1, _field(1, b"cpu") + _field(2, _field(1, b"1")))))
    + _field(4, 30),
)
_DEFINITION = base64.b64decode(json.loads((DATA / "definition.json").read_text())["protobuf"])


@target(
    "protobuf",
    mutate_bytes,
    [
        bytes([4]) + _DEFINITION,
        *(
            bytes([index]) + b"k8s\x00" + _field(1, _field(1, b"v1") + _field(2, b"X")) + _field(2, _PODS)
            for index in range(8)
        ),
    ],
    ["k8s\x00", "\x0a", "\x12", "\x08", "\x09", "\x0d", "\x0b"],
    (ProtobufError,),
)
def read_protobuf(data: bytes) -> object:
    """Decode a message; the first byte chooses its type."""
    envelope = open_envelope(data[1:])
    tree = decode(object_type(*_TYPES[(data or b"\0")[0] % len(_TYPES)]), envelope.raw)
    json.dumps(tree).encode()
    return sorted(tree)


@target(
    "protobuf-requests",
    mutate_bytes,
    [
        _DEFINITION,
        *(
            b"k8s\x00" + _field(1, _field(1, b"v1") + _field(2, b"Namespace")) + _field(2, _METADATA)
            for _ in range(1)
        ),
    ],
    ["k8s\x00", "\x0a", "\x12", "\x08", "\x09"],
)
def post_protobuf(data: bytes) -> object:
    kind = "application/vnd.kubernetes.protobuf"
    paths = (
        "/api/v1/namespaces",
        "/api/v1/namespaces/default/pods",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    )
    answers = [
        _server(request("POST", path, data, authorization=f"Bearer {_TOKEN}", content_type=kind))
        for path in paths
    ]
    return " ".join(_status(answer) for answer in answers)


# ---- the extender ---------------------------------------------------------------------------------


@extender.filter
def _fits(pod: Any, node: Any) -> bool:
    return bool(node.metadata.name != pod.metadata.name)


@extender.prioritize
def _score(pod: Any, node: Any) -> int:
    return len(node.metadata.labels)


@extender.preempt
def _preempt(pod: Any, victims: Mapping[str, Any]) -> Any:
    return victims


@extender.bind
def _bind(pod: Any, node: Any) -> None:
    return None


_offer = Offer(
    Served(
        handlers=[
            handler for function in (_fits, _score, _preempt, _bind) for handler in handlers_of(function)
        ],
        registry=registry_with(()),
    ),
    None,
)
_extender = Talk(ExtenderService(_offer.verbs, ExtenderMetrics()))
_POD = {
    "metadata": {"name": "p", "namespace": "d", "uid": "u"},
    "spec": {"containers": [{"name": "c"}]},
    "status": {},
}
_NODE = {
    "metadata": {"name": "n", "labels": {"a": "b"}},
    "status": {"allocatable": {"cpu": "4", "pods": "110"}},
}


def _question(path: str, body: Any) -> bytes:
    return json.dumps({"path": path, "body": body}).encode()


@target(
    "extender-requests",
    mutate_json,
    [
        _question("/filter", {"Pod": _POD, "Nodes": {"metadata": {}, "items": [_NODE, _NODE]},
        "NodeNames": None}),
        _question("/filter", {"Pod": _POD, "Nodes": None, "NodeNames": ["n"]}),
        _question("/prioritize", {"pod": _POD, "nodes": {"items": [_NODE]}}),
        _question("/preempt", {"Pod": _POD, "NodeNameToVictims": {"n": {"Pods": [_POD],
        "NumPDBViolations": 1}}}),
        _question("/preempt", {"Pod": _POD, "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u"}]}}}),
        _question("/bind", {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n"}),
        _question("/metrics", None),
    ],
    ["/filter", "/prioritize", "/preempt", "/bind", "/healthz", "Pod", "Nodes", "NodeNames", "items",
    "metadata", "name",
     "NodeNameToVictims", "NodeNameToMetaVictims", "Pods", "UID", "NumPDBViolations", "spec", "status",
     "allocatable"],
)  # fmt: skip
def ask_served_extender(data: bytes) -> object:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        tree = {"path": "/filter", "body": None}
    if not isinstance(tree, dict):
        return "no request"
    path, body = line_of(tree.get("path")), json.dumps(tree.get("body")).encode()
    method = "GET" if path in ("/metrics", "/healthz") else "POST"
    answer = _extender(request(method, path or "/", body, content_type="application/json")).decode("latin-1")
    return f"{answer[9:12]} {answer[-80:]}".replace('"', " ")
