"""Groups that other API servers serve: APIServices with a Service."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.http.aggregated import attributes_of_path
from mooring.serving.certificates import make_certificates
from tests.sandbox.apiserver.kit import Direct, Running, running

Tree = dict[str, Any]
BASE = "/apis/ships.example.com/v1"
NAME = "v1.ships.example.com"
_GROUP = "apiregistration.k8s.io"
LOCAL = {"group": "ships.example.com", "version": "v1", "groupPriorityMinimum": 9, "versionPriority": 9}
RESOURCES = [
    {"name": "ships", "singularName": "ship", "namespaced": True, "kind": "Ship", "verbs": ["get", "watch"]},
    {"name": "ships/status", "singularName": "", "namespaced": True, "kind": "Ship", "verbs": ["get"]},
]


class Ships:
    """An extension API server on this machine, with a certificate for the Service `ships`. `seen` has the
    requests, with the names in the certificates of their clients."""

    def __init__(self, folder: Path) -> None:
        self.seen: list[tuple[str, str, dict[str, list[str]], Any]] = []
        self.resources: Any = RESOURCES
        self.proceed = threading.Event()
        """Until it is set, a watch has one event only."""
        made = make_certificates("ships.default.svc")
        self.bundle = base64.b64encode(made.authority).decode()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"] or 0))
                names = {key.lower(): self.headers.get_all(key) or [] for key in self.headers}
                assert isinstance(self.connection, ssl.SSLSocket)
                server.seen.append((self.command, self.path, names, self.connection.getpeercert()))
                if "watch=" in self.path:
                    self._watch()
                    return
                body = json.dumps(self._tree()).encode()
                self.send_response(418 if self.path.endswith("/teapot") else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.do_GET()

            def _tree(self) -> Tree:
                if self.path == BASE:
                    return {
                        "kind": "APIResourceList",
                        "groupVersion": BASE[6:],
                        "resources": server.resources,
                    }
                if self.path.startswith("/openapi/v3"):
                    return {"paths": {BASE[1:]: {"serverRelativeURL": f"/openapi/v3{BASE}?hash=1"}}}
                return {"kind": "Ship", "metadata": {"name": self.path}}

            def _watch(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(b'{"type": "ADDED"}\n')
                server.proceed.wait(10)
                self.wfile.write(b'{"type": "DELETED"}\n')
                self.close_connection = True

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        chain, authority = folder / "pair.pem", folder / "clients.crt"
        chain.write_bytes(made.pair.certificate + made.pair.key)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(chain)
        self._authority = authority
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]

    def start(self, settings: dict[str, str]) -> None:
        """Serve clients that a front proxy's certificate proves, by the settings in the cluster."""
        self._authority.write_text(settings["requestheader-client-ca-file"])
        self._context.load_verify_locations(self._authority)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._server.socket = self._context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.proceed.set()
        self._server.shutdown()
        self._server.server_close()


class Scene:
    def __init__(self, server: Running, ships: Ships) -> None:
        self.server, self.ships = server, ships

    def register(self, host: str = "localhost", name: str = "ships", **spec: Any) -> None:
        service = {"type": "ExternalName", "externalName": host}
        self.server.ask(
            "POST", "/api/v1/namespaces/default/services", {"metadata": {"name": name}, "spec": service}
        )
        reference = {"namespace": "default", "name": name, "port": self.ships.port}
        spec = {
            "group": "ships.example.com", "version": "v1", "groupPriorityMinimum": 1000,
            "versionPriority": 15, "service": reference, "caBundle": self.ships.bundle, **spec,
        }  # fmt: skip
        body = {"metadata": {"name": NAME}, "spec": spec}
        reply = self.server.ask("POST", "/apis/apiregistration.k8s.io/v1/apiservices", body)
        assert reply.code == 201, reply.text

    def condition(self) -> Tree:
        """Return the condition of the APIService once it has one."""
        path = f"/apis/apiregistration.k8s.io/v1/apiservices/{NAME}"
        conditions = wait(lambda: (self.server.ask("GET", path).tree.get("status") or {}).get("conditions"))
        return dict(conditions[0])


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with running() as server:
        ships = Ships(tmp_path)
        path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
        ships.start(server.ask("GET", path).tree["data"])
        try:
            yield Scene(server, ships)
        finally:
            ships.close()


def wait(look: Callable[[], Any]) -> Any:
    """Return what is there, as soon as it is."""
    for _ in range(200):
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def test_requests_reach_the_server_with_the_user_who_sent_them(scene: Scene) -> None:
    scene.register()
    condition = scene.condition()
    assert [condition[key] for key in ("type", "status", "reason", "message")] == [
        "Available", "True", "Passed", "all checks passed",
    ]  # fmt: skip
    wait(lambda: scene.server.ask("GET", BASE).code == 200)
    path = f"{BASE}/namespaces/default/ships/a%20b"
    forged = {"x_remote_user": "nobody", "x_remote_group": "system:masters"}
    acting = {"impersonate_user": "alice", "impersonate_group": "system:masters", "impersonate_extra_a": "1"}
    reply = scene.server.ask("GET", f"{path}?limit=5", **forged, **acting)
    assert (reply.code, reply.tree["kind"]) == (200, "Ship")
    method, target, headers, certificate = scene.ships.seen[-1]
    assert (method, target) == ("GET", f"{path}?limit=5")
    assert headers["x-remote-user"] == ["alice"]
    assert headers["x-remote-group"] == ["system:masters", "system:authenticated"]
    assert headers["x-remote-extra-a"] == ["1"]
    assert not {"authorization", "impersonate-user"} & set(headers)
    assert certificate["subject"] == ((("commonName", "front-proxy-client"),),)
    assert scene.server.ask("POST", f"{BASE}/namespaces/default/ships", {"kind": "Ship"}).code == 200
    assert scene.server.ask("GET", f"{BASE}/teapot").code == 418
    assert scene.server.ask("GET", path, impersonate_user="bob").code == 403


def test_a_server_that_leads_back_is_not_asked_without_end(scene: Scene) -> None:
    scene.register()
    wait(lambda: scene.server.ask("GET", BASE).code == 200)
    reply = scene.server.ask(
        "GET", f"{BASE}/ships", impersonate_user="front-proxy-client", impersonate_group="system:masters"
    )
    assert reply.code == 503
    assert f"APIService {NAME} leads to this server" in reply.tree["message"]
    assert all("front-proxy-client" not in headers["x-remote-user"] for _, _, headers, _ in scene.ships.seen)


def test_discovery_and_openapi_have_the_group(scene: Scene) -> None:
    scene.register()
    wait(lambda: scene.server.ask("GET", BASE).code == 200)
    assert scene.server.ask("GET", BASE).tree["resources"][0]["kind"] == "Ship"
    groups = [one["name"] for one in scene.server.ask("GET", "/apis").tree["groups"]]
    assert groups[-1] == "ships.example.com"
    assert scene.server.ask("GET", BASE[: -len("/v1")]).tree["preferredVersion"]["version"] == "v1"
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    (version,) = scene.server.ask("GET", "/apis", accept=aggregated).tree["items"][-1]["versions"]
    kind = {"group": "ships.example.com", "version": "v1", "kind": "Ship"}
    assert version == {
        "version": "v1", "freshness": "Current",
        "resources": [{
            "resource": "ships", "responseKind": kind, "scope": "Namespaced", "singularResource": "ship",
            "verbs": ["get", "watch"],
            "subresources": [{"subresource": "status", "responseKind": kind, "verbs": ["get"]}],
        }],
    }  # fmt: skip
    index = scene.server.ask("GET", "/openapi/v3").tree["paths"]
    assert index[BASE[1:]]["serverRelativeURL"] == f"/openapi/v3{BASE}?hash=1"
    assert scene.server.ask("GET", f"/openapi/v3{BASE}?hash=1").code == 200
    assert scene.ships.seen[-1][1] == f"/openapi/v3{BASE}?hash=1"
    scene.server.ask("DELETE", f"/apis/apiregistration.k8s.io/v1/apiservices/{NAME}")
    assert scene.server.ask("GET", BASE).code == 404
    assert "ships.example.com" not in scene.server.ask("GET", "/apis").text


def test_a_watch_comes_event_by_event(scene: Scene) -> None:
    scene.register()
    wait(lambda: scene.server.ask("GET", BASE).code == 200)
    connection = scene.server.connect()
    connection.request("GET", f"{BASE}/namespaces/default/ships?watch=1", headers=scene.server.headers())
    response = connection.getresponse()
    assert json.loads(response.readline()) == {"type": "ADDED"}
    scene.ships.proceed.set()
    assert [json.loads(line) for line in response.read().splitlines()] == [{"type": "DELETED"}]
    connection.close()


@pytest.mark.parametrize(
    ("options", "reason", "message"),
    [
        ({"caBundle": ""}, "FailedDiscoveryCheck", "x509: certificate signed by unknown authority"),
        ({"name": "other"}, "FailedDiscoveryCheck", "certificate is not valid for other.default.svc"),
        ({"host": "10.1.2.3"}, "FailedDiscoveryCheck", "externalName 10.1.2.3: expected localhost"),
        (
            {"service": {"namespace": "default", "name": "no", "port": 1}},
            "ServiceNotFound",
            'service/no in "default" is not present',
        ),
    ],
)
def test_a_server_that_cannot_be_used(scene: Scene, options: Tree, reason: str, message: str) -> None:
    scene.register(**options)
    condition = scene.condition()
    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert message in condition["message"]
    reply = scene.server.ask("GET", f"{BASE}/namespaces/default/ships")
    assert (reply.code, reply.text) == (503, "service unavailable\n")
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    (version,) = scene.server.ask("GET", "/apis", accept=aggregated).tree["items"][-1]["versions"]
    assert version == {"version": "v1", "resources": [], "freshness": "Stale"}
    assert not scene.ships.seen or reason == "FailedDiscoveryCheck"


@pytest.mark.parametrize("resources", ["ships", [1], [{"name": "ships"}], [{**RESOURCES[0], "verbs": "get"}]])
def test_discovery_withstands_a_server_that_lists_no_resources(scene: Scene, resources: Any) -> None:
    scene.ships.resources = resources
    scene.register()
    condition = scene.condition()
    assert (condition["status"], condition["reason"]) == ("False", "FailedDiscoveryCheck")
    assert "invalid APIResourceList" in condition["message"]
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert scene.server.ask("GET", "/apis", accept=aggregated).code == 200


def test_a_certificate_need_not_be_verified(scene: Scene) -> None:
    scene.register(caBundle=None, insecureSkipTLSVerify=True, name="other")
    assert scene.condition()["status"] == "True"


def test_groups_of_kubernetes_stay(scene: Scene) -> None:
    path = "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps"
    service = {"namespace": "default", "name": "ships", "port": 443}
    patch = {"spec": {"service": service, "insecureSkipTLSVerify": True}}
    media = "application/merge-patch+json"
    assert scene.server.ask("PATCH", path, patch, content_type=media).code == 200
    assert scene.server.ask("GET", "/apis/apps/v1/deployments").tree["kind"] == "DeploymentList"


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({}, {
            "metadata.name": 'must be `spec.version+"."+spec.group`: "."', "spec.group": "only v1 may",
            "spec.version": "a DNS-1035 label", "spec.groupPriorityMinimum": "must be positive",
            "spec.versionPriority": "must be positive and less than 1000",
        }),
        ({**LOCAL, "service": {"port": -1}, "insecureSkipTLSVerify": True, "caBundle": "AAAA"}, {
            "spec.service.namespace": "Required value", "spec.service.name": "Required value",
            "spec.service.port": "port is not valid: must be between 1 and 65535",
            "spec.insecureSkipTLSVerify": "may not be true if caBundle is present",
        }),
        ({**LOCAL, "insecureSkipTLSVerify": True, "versionPriority": 1001}, {
            "spec.versionPriority": "Invalid value: 1001",
            "spec.insecureSkipTLSVerify": "local APIServices may not have insecureSkipTLSVerify",
        }),
    ],
)  # fmt: skip
def test_invalid_registrations(direct: Direct, spec: Tree, problems: dict[str, str]) -> None:
    with pytest.raises(ApiError) as error:
        direct.ask("create", "apiservices", "", {"metadata": {"name": NAME}, "spec": spec}, group=_GROUP)
    causes = {one["field"]: one["message"] for one in (error.value.details or {})["causes"]}
    assert set(causes) == set(problems)
    assert all(problems[field] in message for field, message in causes.items())


@pytest.mark.parametrize(
    ("method", "path", "attributes"),
    [
        ("GET", "/namespaces/a/ships/b", Attributes("get", "g", "ships", "a", "b")),
        ("GET", "/namespaces/a/ships", Attributes("list", "g", "ships", "a")),
        ("GET", "/watch/ships", Attributes("watch", "g", "ships")),
        ("POST", "/namespaces/a/ships", Attributes("create", "g", "ships", "a")),
        ("DELETE", "/ships", Attributes("deletecollection", "g", "ships")),
        ("DELETE", "/ships/b", Attributes("delete", "g", "ships", "", "b")),
        ("PATCH", "/namespaces/a/ships/b/status", Attributes("patch", "g", "ships/status", "a", "b")),
        ("HEAD", "/namespaces/a", Attributes("get", "g", "namespaces", "", "a")),
    ],
)
def test_what_a_path_is_about(method: str, path: str, attributes: Attributes) -> None:
    assert attributes_of_path(method, f"/apis/g/v1{path}", watch=False) == attributes
