"""What decides, in addition to the kind, how new objects are admitted."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.context.api import Api

QUOTAS: Final = "resourcequotas"
WEBHOOKS: Final = (
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
)
POLICIES: Final = (
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    *WEBHOOKS,
)
"""Tables of what makes admission depend on more than the object and its namespace."""
_PHASE: Final = 0  # index into the selectable fields of namespaces


def is_terminating(api: Api, name: str) -> bool | None:
    """Whether a namespace is being deleted; None if it does not exist."""
    namespace = api.record("namespaces", name)
    return None if namespace is None else namespace.fields[_PHASE] == "Terminating"


def has_quota(api: Api, name: str) -> bool:
    table = api.store.table(QUOTAS)
    return bool(table.records) and bool(table.keys(name))


def has_webhooks(api: Api) -> bool:
    return any(api.store.table(name).records for name in WEBHOOKS)


def has_policies(api: Api) -> bool:
    """Whether there are admission policies or webhooks that may look at any object."""
    table = api.store.table
    return any(table(name).records for name in POLICIES)
