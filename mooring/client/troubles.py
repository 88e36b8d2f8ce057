"""Failures of lists and watches, logged once with what to do about them."""

from __future__ import annotations

import logging

from mooring.api.kinds import ApiResource
from mooring.client.api_errors import ApiError
from mooring.client.port import Obj

log = logging.getLogger("mooring.informers")

_MOST_CAUSES = 100  # per kind; a server that words each refusal differently must not fill the memory


class Troubles:
    """Logs each cause once until it is resolved, for all kinds that it affects."""

    def __init__(self) -> None:
        self._causes: dict[str, set[str]] = {}  # by kind

    def report(self, kind: str, cause: str) -> None:
        new = not any(cause in causes for causes in self._causes.values())
        causes = self._causes.setdefault(kind, set())
        if len(causes) < _MOST_CAUSES:
            causes.add(cause)
            if new:
                log.warning("%s; retrying", cause)

    def settle(self, kind: str) -> None:
        """Record that the kind is watched again."""
        if kind in self._causes:
            del self._causes[kind]
            log.info("watching %s again", kind)


def explain_refusal(refusal: ApiError, verb: str, resource: ApiResource[Obj]) -> str:
    """Return why the API server rejects a list or watch, and what to do about it.

    A cause that concerns the whole server does not name the kind, so that it is logged once for all kinds.
    """
    if refusal.code == 401:
        return f"the API server rejected the credentials ({refusal.message}); renew them"
    if refusal.code == 403:
        group = f' in API group "{resource.group}"'
        return (
            f"not allowed to {verb} {resource.name}: {refusal.message}; "
            f'grant the user or ServiceAccount the verb "{verb}" on "{resource.plural}"{group}'
        )
    if refusal.not_found:
        return (
            f"the API server does not serve {resource.plural} of {resource.api_version}: {refusal.message}; "
            "the server may be too old, or the API disabled"
        )
    if refusal.transient:
        return f"the API server returned {refusal.code} {refusal.reason}: {refusal.message}"
    return f"cannot {verb} {resource.name}: {refusal}"
