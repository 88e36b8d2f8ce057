"""What decides, in addition to the kind, how new objects are admitted."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.context.api import Api

QUOTAS: Final = "resourcequotas"
_PHASE: Final = 0  # index into the selectable fields of namespaces


def is_terminating(api: Api, name: str) -> bool | None:
    """Whether a namespace is being deleted; None if it does not exist."""
    namespace = api.record("namespaces", name)
    return None if namespace is None else namespace.fields[_PHASE] == "Terminating"


def has_quota(api: Api, name: str) -> bool:
    table = api.store.table(QUOTAS)
    return bool(table.records) and bool(table.keys(name))
