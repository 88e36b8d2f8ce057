"""What kube-proxy serves on a node: its health, and whether the node has pods of a load balancer."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from ipaddress import IPv4Address
from typing import Final

from mooring.api.times import format_time
from mooring.api.workloads import Service
from mooring.sandbox.network.messages import Query, Reply
from mooring.sandbox.network.services import Services

HEALTH_PORT: Final = 10256
STATUS_PORT: Final = 10249
"""Served to the node alone."""
_JSON: Final = {"content-type": "application/json", "x-content-type-options": "nosniff"}
_TEXT: Final = {"content-type": "text/plain; charset=utf-8"}
_STATUS: Final = {"/healthz": b"ok", "/proxyMode": b"iptables"}


class NodeProxies:
    """The kube-proxy of each node. `clock` returns seconds since the epoch."""

    def __init__(self, services: Services, clock: Callable[[], float]) -> None:
        self._services = services
        self._clock = clock

    def find(self, dialed: str, port: int, node: str) -> Callable[[Query], Reply] | None:
        """Return what answers at a port of a node by TCP; `dialed` is the address that the client named."""
        if port == HEALTH_PORT:
            return self._answer_health
        if port == STATUS_PORT and IPv4Address(dialed).is_loopback:
            return _answer_status
        service = self._services.at_health_port(port)
        return None if service is None else partial(self._answer_for_service, service, node)

    def _answer_health(self, query: Query) -> Reply:
        if query.path not in ("/healthz", "/livez"):
            return Reply(404, b"404 page not found\n", _TEXT)
        now = format_time(self._clock())
        content = {"lastUpdated": now, "currentTime": now, "nodeEligible": True}
        return Reply(200, json.dumps(content).encode(), _JSON)

    def _answer_for_service(self, service: Service, node: str, query: Query) -> Reply:
        count = self._services.count_ready(service, node)
        content = {
            "service": {"namespace": service.namespace, "name": service.name},
            "localEndpoints": count,
            "serviceProxyHealthy": True,
        }
        headers = {**_JSON, "x-load-balancing-endpoint-weight": str(count)}
        return Reply(200 if count else 503, json.dumps(content, indent=1).encode(), headers)


def _answer_status(query: Query) -> Reply:
    content = _STATUS.get(query.path)
    return Reply(404, b"404 page not found\n", _TEXT) if content is None else Reply(200, content, _TEXT)
