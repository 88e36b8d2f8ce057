"""The variables by which containers find the Services of their namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mooring.api.workloads import Service
from mooring.client.cache import Collection
from mooring.sandbox.programs.environment import service_variables

_MOST_PORTS: Final = 2_000  # with more, a real container could not start: its variables would be too long
_MOST_KEPT: Final = 100


class ServiceLinks:
    """The variables are computed once for all pods of a namespace, until a Service changes."""

    def __init__(self, services: Collection[Service]) -> None:
        self._services = services
        self._kept: dict[str, Mapping[str, str] | None] = {}
        services.subscribe(self._changed)

    def find(self, namespace: str) -> Mapping[str, str] | None:
        """Return the variables of pods in a namespace, those of `kubernetes` alone without one; None if they
        are too many."""
        if namespace not in self._kept:
            if len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[namespace] = self._compute(namespace)
        return self._kept[namespace]

    def _compute(self, namespace: str) -> Mapping[str, str] | None:
        kubernetes = self._services.get("default/kubernetes")
        links = self._services.in_namespace(namespace) if namespace else ()
        services = [*([] if kubernetes is None else [kubernetes]), *links]
        if sum(len(one.spec.ports) for one in services) > _MOST_PORTS:
            return None
        return service_variables(services)

    def _changed(self, old: Service | None, new: Service | None) -> None:
        for one in filter(None, (old, new)):
            if one.key == "default/kubernetes":
                self._kept.clear()
            self._kept.pop(one.namespace, None)
