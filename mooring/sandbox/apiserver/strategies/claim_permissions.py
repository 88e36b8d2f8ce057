"""Permissions for parts of a ResourceClaim's status: to bind it, and to report on the devices of a driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.authorization.users import ACCOUNT, NODE_NAME, User
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import Cause, forbidden_value
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.claim_status import device_key

_GROUP: Final = "resource.k8s.io"
_OWN_NODE, _ANY_NODE = "associated-node:", "arbitrary-node:"


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
    verbs = [f"{prefix}{write.verb}" for prefix in _prefixes(write.user, status["allocation"])]
    for driver in _changed_drivers(status, old):
        resource = "resourceclaims/driver"
        checks = (Attributes(verb, _GROUP, resource, write.namespace, driver) for verb in verbs)
        refusals = [_refusal(write, attributes) for attributes in checks]
        if all(refusals):
            needed = f'requires resource="{resource}", verb="[{" ".join(verbs)}]" permission'
            yield forbidden_value("status.devices", f"changing status.devices {needed}: {refusals[0]}")


def _prefixes(user: User, allocation: Tree) -> tuple[str, ...]:
    """Return the prefixes of the verbs of which one suffices. A service account whose token was issued for a
    pod on the node of the allocation needs the right for its own node only."""
    nodes = dict(user.extra).get(NODE_NAME, ())
    own = user.name.startswith(ACCOUNT) and len(nodes) == 1 and nodes[0] == _node_of(allocation)
    return (_OWN_NODE, _ANY_NODE) if own else (_ANY_NODE,)


def _node_of(allocation: Tree) -> str | None:
    """Return the only node where the devices of an allocation are, if there is one."""
    terms: list[Any] = dig(allocation, "nodeSelector", "nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions") or len(terms[0].get("matchFields") or ()) != 1:
        return None
    match terms[0]["matchFields"][0]:
        case {"key": "metadata.name", "operator": "In", "values": [str(name)]}:
            return name
    return None


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
