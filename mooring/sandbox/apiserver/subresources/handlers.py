"""Which function answers which subresource."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.sandbox.apiserver.subresources.binding import bind_pod
from mooring.sandbox.apiserver.subresources.connecting import connect
from mooring.sandbox.apiserver.subresources.eviction import evict
from mooring.sandbox.apiserver.subresources.finalize import finalize
from mooring.sandbox.apiserver.subresources.log import read_log
from mooring.sandbox.apiserver.subresources.node_proxy import proxy_node
from mooring.sandbox.apiserver.subresources.proxying import proxy
from mooring.sandbox.apiserver.subresources.scale import get_scale, patch_scale, update_scale
from mooring.sandbox.apiserver.subresources.token import request_token
from mooring.sandbox.apiserver.verbs.request import Answer, Request

Handler = Callable[[Request], Answer]

_PROXY: Mapping[str, Handler] = dict.fromkeys(
    ("create", "delete", "get", "options", "patch", "update"), proxy
)

SUBRESOURCES: dict[tuple[str, str], Mapping[str, Handler]] = {
    ("nodes", "proxy"): {"get": proxy_node},
    ("pods", "attach"): {"create": connect, "get": connect},
    ("pods", "binding"): {"create": bind_pod},
    ("pods", "eviction"): {"create": evict},
    ("pods", "exec"): {"create": connect, "get": connect},
    ("pods", "log"): {"get": read_log},
    ("pods", "portforward"): {"create": connect, "get": connect},
    ("pods", "proxy"): _PROXY,
    ("services", "proxy"): _PROXY,
    ("serviceaccounts", "token"): {"create": request_token},
    ("namespaces", "finalize"): {"update": finalize},
    ("*", "scale"): {"get": get_scale, "update": update_scale, "patch": patch_scale},
}
"""By table and subresource; a star is any table. Others are written like the object itself."""
