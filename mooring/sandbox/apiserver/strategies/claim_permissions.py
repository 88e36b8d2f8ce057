"""Permissions for parts of a ResourceClaim's status: to bind it, and to report on the devices of a driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import Cause, forbidden_value
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.claim_status import device_key

_GROUP: Final = "resource.k8s.io"
_ANY_NODE: Final = "arbitrary-node:"


def claim_permissions(write: Write, status: Tree, old: Tree) -> Iterator[Cause]:
    """Return what the user may not change, in addition to what `resourceclaims/status` allows."""
    if any((status.get(name) or None) != (old.get(name) or None) for name in ("allocation", "reservedFor")):
        attributes = Attributes(write.verb, _GROUP, "resourceclaims/binding")
        refusal = _refusal(write, attributes)
        if refusal:
            needed = f'requires resource="resourceclaims/binding", verb="{write.verb}" permission'
            why = f"changing status.allocation or status.reservedFor {needed}: {refusal}"
            yield forbidden_value("status.allocation", why)
    if status.get("allocation") is None:
        return
    verb = f"{_ANY_NODE}{write.verb}"
    for driver in _changed_drivers(status, old):
        attributes = Attributes(verb, _GROUP, "resourceclaims/driver", write.namespace, driver)
        refusal = _refusal(write, attributes)
        if refusal:
            needed = f'requires resource="resourceclaims/driver", verb="[{verb}]" permission'
            yield forbidden_value("status.devices", f"changing status.devices {needed}: {refusal}")


def _refusal(write: Write, attributes: Attributes) -> str:
    try:
        write.api.rbac.check(write.user, attributes)
    except ApiError as error:
        return error.message
    return ""


def _changed_drivers(status: Tree, old: Tree) -> list[str]:
    after, before = (
        {device_key(device): device for device in each.get("devices") or ()} for each in (status, old)
    )
    keys = {*after, *before}
    return sorted({key[0] for key in keys if after.get(key) != before.get(key)})
