"""The endpoints of one port of a Service, indexed so that connections do not search them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from mooring.sandbox.network.messages import Budget

MOST_KEPT: Final = 100_000  # endpoints, of all Services together
_COST: Final = 4  # units of work for each endpoint


class Endpoint(NamedTuple):
    """One address behind a Service."""

    address: str
    port: int
    tree: dict[str, Any]
    """As the EndpointSlice has it."""

    @property
    def node(self) -> str:
        return str(self.tree.get("nodeName") or "")

    @property
    def host(self) -> str:
        """The first label of its name."""
        return str(self.tree.get("hostname") or self.address.replace(".", "-"))

    @property
    def is_ready(self) -> bool:
        return (self.tree.get("conditions") or {}).get("ready") is not False

    @property
    def is_serving(self) -> bool:
        return (self.tree.get("conditions") or {}).get("serving") is not False


class Choice:
    """Endpoints that a connection is assigned to in turn."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self.endpoints = list(endpoints)
        self.at = {one.address: one for one in reversed(self.endpoints)}


_NOTHING: Final = Choice(())


class Backends:
    """The endpoints of a port, by what connections are assigned by."""

    def __init__(self, endpoints: list[Endpoint]) -> None:
        usable = [one for one in endpoints if one.is_ready or one.is_serving]
        self.size = len(endpoints)
        self.ready = [one for one in endpoints if one.is_ready]
        self.all = Choice(self.ready or usable)
        self.by_host = _group(self.ready, lambda one: [one.host])
        self._near = {field: self._hinted(field) for field in ("forNodes", "forZones")}
        self._on_node = {
            node: Choice([one for one in there.endpoints if one.is_ready] or there.endpoints)
            for node, there in _group(usable, lambda one: [one.node]).items()
        }

    def on_node(self, node: str) -> Choice:
        """Return the endpoints on a node."""
        return self._on_node.get(node, _NOTHING)

    def near(self, node: str, zone: str | None) -> Choice:
        """Return the endpoints whose hints name the node or the zone of a client, if all have hints."""
        return self._near["forNodes"].get(node) or self._near["forZones"].get(zone or "") or self.all

    def _hinted(self, field: str) -> dict[str, Choice]:
        endpoints = self.all.endpoints
        if not all(_hints(one, field) for one in endpoints):
            return {}
        return _group(endpoints, lambda one: _hints(one, field))


def _group(endpoints: list[Endpoint], keys: Callable[[Endpoint], Iterable[str]]) -> dict[str, Choice]:
    groups: dict[str, list[Endpoint]] = {}
    for one in endpoints:
        for key in dict.fromkeys(keys(one)):
            groups.setdefault(key, []).append(one)
    return {key: Choice(group) for key, group in groups.items()}


def _hints(endpoint: Endpoint, field: str) -> list[str]:
    return [one["name"] for one in (endpoint.tree.get("hints") or {}).get(field) or ()]


class KeptBackends:
    """The backends that were used last, by Service and port."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, dict[tuple[str, str, int], Backends]] = OrderedDict()
        self._size = 0

    def get(
        self,
        service: str,
        port: tuple[str, str, int],
        find: Callable[[], Iterable[Endpoint]],
        budget: Budget | None,
    ) -> Backends:
        """Return the backends of a port, from the endpoints that `find` returns unless they are kept."""
        of_service = self._kept.get(service, {})
        backends = of_service.get(port)
        if backends is None:
            backends = of_service[port] = Backends(list(find()))
            self._kept[service] = of_service
            self._size += backends.size
            while self._size > MOST_KEPT:
                self.forget(next(iter(self._kept)))
            if budget is not None:
                budget.spend(_COST * backends.size)
        else:
            self._kept.move_to_end(service)
        return backends

    def forget(self, service: str) -> None:
        """Forget what was behind a Service."""
        self._size -= sum(one.size for one in self._kept.pop(service, {}).values())
