"""A webhook server over HTTPS, and requests whose answers are compared with a real API server's.

`python -m tests.sandbox.apiserver.record_webhooks` keeps the real server's answers in data/webhooks.json.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from mooring.serving.certificates import make_certificates
from tests.sandbox.apiserver.patch_replay import DATA, PATCHES, Answer, Step

Tree = dict[str, Any]
RECORDED = DATA / "webhooks.json"
_API = "/apis/admissionregistration.k8s.io/v1/"
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PORT = re.compile(r"127\.0\.0\.1:\d+")
CONFIG_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that go away."""


class WebhookServer:
    """Answers by the last part of a path; `reviews` are the requests it was sent."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.reviews: list[tuple[str, Tree]] = []
        self.held = threading.Event()
        """Until it is set, `hold` does not answer."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                name = self.path.partition("?")[0].strip("/")
                review = json.loads(body)
                server.reviews.append((name, review))
                if name == "hold":
                    server.held.wait(30)
                answers = CONVERSIONS if review["kind"] == "ConversionReview" else _ANSWERS
                code, answer = _answer(answers, name, review["request"])
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        made = make_certificates(host)
        self.bundle = base64.b64encode(made.authority).decode()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            chain = Path(folder) / "pair.pem"
            chain.write_bytes(made.pair.certificate + made.pair.key)
            context.load_cert_chain(chain)
        self._server = _QuietServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def url(self, name: str) -> str:
        return f"https://127.0.0.1:{self.port}/{name}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def webhook_server(host: str = "127.0.0.1") -> Iterator[WebhookServer]:
    server = WebhookServer(host)
    try:
        yield server
    finally:
        server.close()


# ---- what it answers ------------------------------------------------------------------------------


def _review(request: Tree, **response: Any) -> Tree:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": True, **response},
    }


def _denied(request: Tree, **status: Any) -> Tree:
    return _review(request, allowed=False, status=status)


def _patch(*operations: Tree) -> Tree:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


def _add(path: str, value: Any) -> Tree:
    return {"op": "add", "path": path, "value": value}


def _slow(request: Tree) -> Tree:
    time.sleep(1.5)
    return _review(request)


def _count(request: Tree) -> Tree:
    """Count how often an object was seen, in an annotation."""
    annotations = request["object"]["metadata"].get("annotations") or {}
    seen = int(annotations.get("seen", "0")) + 1
    return _review(request, **_patch(_add("/metadata/annotations", {**annotations, "seen": str(seen)})))


def _label(request: Tree) -> Tree:
    labels = request["object"]["metadata"].get("labels") or {}
    return _review(request, **_patch(_add("/metadata/labels", {**labels, "by": "webhook"})))


_ANSWERS: dict[str, Callable[[Tree], Any]] = {
    "allow": _review,
    "hold": _review,
    "deny": lambda r: _denied(r, message="not this one", code=403, reason="Forbidden"),
    "deny-oddly": lambda r: _denied(r, message="not this one", code=99999),
    "deny-silently": lambda r: _review(r, allowed=False),
    "deny-reason": lambda r: _review(r, allowed=False, status={"reason": "NoReason", "code": 200}),
    "deny-details": lambda r: _denied(r, message="m", code=422, details={"causes": [{"message": "c"}]}),
    "warn": lambda r: _review(r, warnings=["first", "second"]),
    "label": _label,
    "count": _count,
    "data": lambda r: _review(r, **_patch(_add("/data/added", "yes"))),
    "no-op": lambda r: _review(r, **_patch(_add("/data/a", r["object"]["data"]["a"]))),
    "test-fails": lambda r: _review(r, **_patch({"op": "test", "path": "/data/a", "value": "other"})),
    "missing-path": lambda r: _review(r, **_patch({"op": "remove", "path": "/spec/nothing/x"})),
    "wrong-type": lambda r: _review(r, **_patch(_add("/data", 5))),
    "undecodable": lambda r: _review(r, patchType="JSONPatch", patch=base64.b64encode(b"{").decode()),
    "no-patch-type": lambda r: _review(r, patch=_patch(_add("/data/b", "c"))["patch"]),
    "no-patch": lambda r: _review(r, patchType="JSONPatch"),
    "other-patch-type": lambda r: _review(r, **{**_patch(_add("/data/b", "c")), "patchType": "Merge"}),
    "wrong-uid": lambda r: {**_review(r), "response": {"uid": "other", "allowed": True}},
    "no-response": lambda r: {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"},
    "slow": _slow,
}  # fmt: skip


def _convert(request: Tree) -> list[Tree]:
    """Version v1 has a size as text, v2 has it as a number."""
    converted = []
    for obj in request["objects"]:
        spec = dict(obj.get("spec") or {})
        if request["desiredAPIVersion"].endswith("/v2") and "size" in spec:
            spec["count"] = int(spec.pop("size"))
        elif request["desiredAPIVersion"].endswith("/v1") and "count" in spec:
            spec["size"] = str(spec.pop("count"))
        converted.append({**obj, "apiVersion": request["desiredAPIVersion"], "spec": spec})
    return converted


def _conversion(request: Tree, objects: list[Tree] | None = None, **more: Any) -> Tree:
    response = {
        "uid": request["uid"],
        "result": {"status": "Success"},
        "convertedObjects": _convert(request) if objects is None else objects,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {**response, **more}
    }  # fmt: skip


def _changed(request: Tree, **metadata: Any) -> Tree:
    objects = _convert(request)
    for obj in objects:
        obj["metadata"].update(metadata)
    return _conversion(request, objects)


CONVERSIONS: dict[str, Callable[[Tree], Any]] = {
    "convert": _conversion,
    "relabel": lambda r: _changed(
        r, labels={"by": "webhook"}, annotations={"a": "b"}, generation=7, finalizers=["x"]
    ),
    "rename": lambda r: _changed(r, name="other"),
    "reidentify": lambda r: _changed(r, uid="other"),
    "fail": lambda r: _conversion(r, result={"status": "Failure", "message": "not today"}),
    "fail-silently": lambda r: _conversion(r, result={"status": "Failure"}),
    "none": lambda r: _conversion(r, []),
    "unchanged": lambda r: _conversion(r, r["objects"]),
    "other-kind": lambda r: _conversion(r, [{**obj, "kind": "Other"} for obj in _convert(r)]),
    "other-uid": lambda r: _conversion(r, uid="other"),
    "no-metadata": lambda r: _conversion(r, [{**obj, "metadata": None} for obj in _convert(r)]),
    "no-response": lambda r: {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"},
    "other-review": lambda r: {**_conversion(r), "kind": "Review"},
    "more": lambda r: _conversion(r, [{**obj, "spec": {**obj["spec"], "x": 1}} for obj in _convert(r)]),
}


def _answer(answers: dict[str, Callable[[Tree], Any]], name: str, request: Tree) -> tuple[int, bytes]:
    if name == "broken":
        return 500, b"it broke"
    if name == "missing":
        return 404, b"not here"
    if name not in answers:
        return 500, b"unknown webhook"
    return 200, json.dumps(answers[name](request)).encode()


# ---- requests -------------------------------------------------------------------------------------


def step(method: str, path: str, body: Tree | None = None) -> Step:
    content_type = PATCHES.get(method, "application/json")
    data = None if body is None else json.dumps(body).encode()
    return Step("PATCH" if method in PATCHES else method, path, content_type, data, "tester")


def namespace_of(scene: str) -> str:
    return f"w-{scene}"


def configuration(kind: str, name: str, config: Tree, **more: Any) -> Step:
    """Create a configuration with one webhook about the ConfigMaps of the namespace `name`."""
    webhook = {
        "name": f"{name}.example.com",
        "clientConfig": config,
        "rules": [{**CONFIG_MAPS, "operations": ["CREATE", "UPDATE"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }
    return step(
        "POST", f"{_API}{kind}webhookconfigurations", {"metadata": {"name": name}, "webhooks": [webhook]}
    )


def config_map(scene: str, name: str = "one", query: str = "", **metadata: Any) -> Step:
    body = {"metadata": {"name": name, **metadata}, "data": {"a": "b"}}
    return step("POST", f"/api/v1/namespaces/{namespace_of(scene)}/configmaps{query}", body)


def scenes(server: WebhookServer) -> dict[str, list[Step]]:
    """The requests of each scene: webhooks first, then writes."""
    found = {}
    for name in _ANSWERS:
        if name in ("slow", "hold", "deny-oddly"):
            continue
        found[f"m-{name}"] = _one(server, "mutating", f"m-{name}", name)
        found[f"v-{name}"] = _one(server, "validating", f"v-{name}", name)
    for name in ("broken", "missing", "slow"):
        found[f"v-{name}"] = _one(server, "validating", f"v-{name}", name)
    found["ignore"] = _one(server, "mutating", "ignore", "broken", failurePolicy="Ignore")
    found["ignore-slow"] = _one(server, "validating", "ignore-slow", "slow", failurePolicy="Ignore")
    refused = {"url": "https://127.0.0.1:1/x", "caBundle": server.bundle}
    found["refused"] = [configuration("validating", namespace_of("refused"), refused), config_map("refused")]
    service = {"service": {"name": "none", "namespace": "default", "path": "/x"}, "caBundle": server.bundle}
    found["service"] = [configuration("validating", namespace_of("service"), service), config_map("service")]
    untrusted = {"url": server.url("allow")}
    found["untrusted"] = [
        configuration("mutating", namespace_of("untrusted"), untrusted),
        config_map("untrusted"),
    ]
    found["conditions"] = [
        configuration(
            "validating", namespace_of("conditions"), _config(server, "deny"),
            matchConditions=[{"name": "c", "expression": "object.metadata.labels.x == 'y'"}],
        ),
        config_map("conditions"), config_map("conditions", labels={"x": "z"}),
        config_map("conditions", "two", labels={"x": "y"}),
    ]  # fmt: skip
    found["selected"] = [
        configuration(
            "validating", namespace_of("selected"), _config(server, "deny"),
            objectSelector={"matchLabels": {"x": "y"}},
        ),
        config_map("selected"), config_map("selected", "two", labels={"x": "y"}),
    ]  # fmt: skip
    deleted = f"/api/v1/namespaces/{namespace_of('deleted')}/configmaps/one"
    found["deleted"] = [
        configuration(
            "validating", namespace_of("deleted"), _config(server, "deny"),
            rules=[{**CONFIG_MAPS, "operations": ["DELETE"]}],
        ),
        config_map("deleted"), step("DELETE", deleted), step("DELETE", deleted.removesuffix("/one")),
    ]  # fmt: skip
    pod = f"/api/v1/namespaces/{namespace_of('connected')}/pods/p"
    found["connected"] = [
        configuration(
            "validating", namespace_of("connected"), _config(server, "deny"),
            rules=[{**CONFIG_MAPS, "resources": ["pods/exec", "pods/attach"], "operations": ["CONNECT"]}],
        ),
        step("POST", f"{pod}/exec?command=ls&stdout=true"), step("GET", f"{pod}/exec?command=ls"),
        step("POST", f"{pod}/attach"), step("POST", f"{pod}/portforward?ports=80"),
        step("POST", f"{pod}/exec?command=ls&dryRun=All"),
    ]  # fmt: skip
    return found


def _config(server: WebhookServer, name: str) -> Tree:
    return {"url": server.url(name), "caBundle": server.bundle}


def _one(server: WebhookServer, kind: str, scene: str, name: str, **more: Any) -> list[Step]:
    seconds = {"timeoutSeconds": 1} if name == "slow" else {}
    create = configuration(kind, namespace_of(scene), _config(server, name), **seconds, **more)
    writes = [config_map(scene), config_map(scene, "two", "?dryRun=All")]
    return [create, *(writes[:1] if name == "slow" else writes)]


def normal(answer: Answer) -> list[Any]:
    tree = answer.tree
    if tree.get("kind") == "Status":
        shown = {name: tree[name] for name in ("reason", "message", "details") if name in tree}
        shown = json.loads(_UID.sub("a uid", _PORT.sub("SERVER", json.dumps(shown))))
        return [answer.code, shown, answer.warnings]
    metadata = {
        name: value for name, value in tree["metadata"].items() if name in ("name", "labels", "annotations")
    }
    return [answer.code, {"metadata": metadata, "data": tree.get("data") or {}}, answer.warnings]
