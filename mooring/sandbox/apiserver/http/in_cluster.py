"""The API server and the kubelets as containers reach them: through the network of the cluster, which is in
memory. Answers are made at once, so watches and writes that would wait for webhooks are not served."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.accounts import user_of
from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.context.calls import CallsNeeded, TooLongError
from mooring.sandbox.apiserver.discovery import Discovery
from mooring.sandbox.apiserver.dispatch import handle
from mooring.sandbox.apiserver.errors import internal, status_tree, unauthorized
from mooring.sandbox.apiserver.http.gate import acting, attributes_of
from mooring.sandbox.apiserver.http.negotiation import PLAIN, representation
from mooring.sandbox.apiserver.http.paths import find_target, names_objects, verb_of
from mooring.sandbox.apiserver.http.representation import Representation
from mooring.sandbox.apiserver.objects import encode_json
from mooring.sandbox.apiserver.store.store import StoreFailedError
from mooring.sandbox.apiserver.subresources.node_proxy import KUBELET_PORT, proxy_node
from mooring.sandbox.apiserver.verbs.request import (
    Answer,
    ListAnswer,
    ObjectAnswer,
    Request,
    TextAnswer,
    TreeAnswer,
)
from mooring.sandbox.network.messages import Query, Reply, UnreachableError
from mooring.sandbox.network.network import Destination

_JSON: Final = {"content-type": "application/json"}
_NOT_FOUND: Final = "404 page not found\n"
_HEALTH: Final = frozenset(("/healthz", "/livez", "/readyz"))


class ControlPlane:
    """See `network.network.Components`. The API server is at `host` and `port`."""

    def __init__(self, api: Api, version: Mapping[str, str], host: str, port: int) -> None:
        self._api = api
        self._version = encode_json(dict(version))
        self._discovery = Discovery(api.registry)
        self._place = host, port

    def find(self, destination: Destination, node: str) -> Callable[[Query], Reply] | None:
        if (destination.address, destination.port) == self._place and destination.protocol == "TCP":
            return self._answer
        if node and str(destination.port) == KUBELET_PORT and destination.protocol == "TCP":
            return partial(self._answer_for_kubelet, node)
        return None

    # ---- the API server

    def _answer(self, query: Query) -> Reply:
        return self._guard(query, self._answer_user)

    def _guard(self, query: Query, answer: Callable[[Query, User], Reply]) -> Reply:
        """Answer a user over TLS, and errors as a Status."""
        if query.scheme != "https":
            return _text("Client sent an HTTP request to an HTTPS server.\n", 400)
        try:
            return answer(query, self._authenticate(query))
        except ApiError as error:
            return Reply(error.code, encode_json(status_tree(error)), _JSON)
        except StoreFailedError as error:
            return Reply(500, encode_json(status_tree(internal(str(error)))), _JSON)

    def _authenticate(self, query: Query) -> User:
        scheme, _, token = query.headers.get("authorization", "").partition(" ")
        user = user_of(self._api, token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        headers = (
            (name.encode(), value.encode("latin-1", "replace")) for name, value in query.headers.items()
        )
        return acting(self._api, user, headers)

    def _answer_user(self, query: Query, user: User) -> Reply:
        path = unquote(query.path)
        if names_objects(path):
            return self._answer_api(path, query, user)
        self._api.rbac.check(user, Attributes(query.method.lower(), path=path))
        if path in _HEALTH:
            return _text("ok")
        if path.rstrip("/") == "/version":
            return Reply(200, self._version, _JSON)
        document = self._discovery.document(path.rstrip("/"), query.headers.get("host", ""))
        return _text(_NOT_FOUND, 404) if document is None else Reply(200, document.body, _JSON)

    def _answer_api(self, path: str, query: Query, user: User) -> Reply:
        target = find_target(self._api.registry, path)
        if target is None:
            return _text(_NOT_FOUND, 404)
        params = parse_qs(urlsplit(query.target).query, keep_blank_values=True)
        watch = (params.get("watch") or ["false"])[0].lower() not in ("", "false", "0")
        verb = verb_of(query.method, target, watch)
        self._api.rbac.check(user, attributes_of(verb, target, params))
        if verb == "watch":
            raise UnreachableError  # what a client gets until its timeout
        headers = query.headers
        request = Request(
            self._api, verb, target.resource, target.namespace, target.name, user, target.subresource, params,
            query.body, headers.get("content-type", ""), headers.get("user-agent", ""), path=target.path,
        )  # fmt: skip
        shown = representation(headers.get("accept", "").replace("*/*", ""), params, self._api.clock)
        try:
            answer = handle(request)
        except (CallsNeeded, TooLongError):
            why = "requests that take several steps are not served to containers of a sandbox cluster"
            raise ApiError(503, "ServiceUnavailable", why) from None
        return self._reply(answer, shown)

    def _reply(self, answer: Answer, shown: Representation) -> Reply:
        if isinstance(answer, ObjectAnswer):
            return Reply(answer.code, shown.single(answer.resource, answer.record), _JSON)
        if isinstance(answer, ListAnswer):
            return Reply(200, b"".join(shown.listed(answer.resource, answer.listing)), _JSON)
        if isinstance(answer, TreeAnswer):
            return Reply(answer.code, shown.tree(answer.tree), _JSON)
        if isinstance(answer, TextAnswer):
            return _text(answer.text)
        raise UnreachableError

    # ---- kubelets

    def _answer_for_kubelet(self, node: str, query: Query) -> Reply:
        reply = self._guard(query, partial(self._ask_kubelet, node))
        return _text("Unauthorized", 401) if reply.status == 401 else reply

    def _ask_kubelet(self, node: str, query: Query, user: User) -> Reply:
        verb = _VERBS.get(query.method, "")
        parts = _KUBELET_PARTS.get(query.path.strip("/").partition("/")[0].lower(), ("proxy",))
        attributes = (Attributes(verb, "", f"nodes/{part}", "", node) for part in parts)
        if not any(self._api.rbac.decide(user, one).allowed for one in attributes):
            what = f"resource=nodes, subresource(s)=[{' '.join(parts)}]"
            return _text(f"Forbidden (user={user.name}, verb={verb}, {what})", 403)
        nodes = self._api.registry.find("", "v1", "nodes")
        assert nodes is not None
        path = query.path.strip("/")
        try:
            return self._reply(proxy_node(Request(self._api, verb, nodes, "", node, user, path=path)), PLAIN)
        except ApiError:
            return _text(_NOT_FOUND, 404)


_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_KUBELET_PARTS: Final = {
    "pods": ("pods", "proxy"), "runningpods": ("pods", "proxy"), "healthz": ("healthz", "proxy"),
    "configz": ("configz", "proxy"), "stats": ("stats",), "metrics": ("metrics",), "logs": ("log",),
    "checkpoint": ("checkpoint",), "statusz": ("statusz",), "flagz": ("configz",),
}  # fmt: skip
"""The subresources of a node by which roles allow paths of its kubelet."""


def _text(body: str, status: int = 200) -> Reply:
    return Reply(status, body.encode())
