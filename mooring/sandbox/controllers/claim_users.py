"""Which pods use which resource claims."""

from __future__ import annotations

from mooring.api.devices import ResourceClaim
from mooring.api.objects import Pod, PodResourceClaim
from mooring.client.cache import Collection

_INDEX = "resource claim"


def index_by_resource_claim(pods: Collection[Pod]) -> None:
    """Have pods found by the keys of their claims."""
    pods.index(_INDEX, claim_names)


def claim_names(pod: Pod) -> tuple[str, ...]:
    """Return the keys of the claims that a pod uses, as far as their names are known."""
    names = {claim_name(pod, entry)[1] for entry in pod.spec.resource_claims}
    extended = pod.status.extended_resource_claim_status
    if extended is not None:
        names.add(extended.resource_claim_name)
    return tuple(f"{pod.namespace}/{name}" for name in names if name)


def claim_name(pod: Pod, entry: PodResourceClaim) -> tuple[bool, str | None]:
    """Return whether it is known which claim an entry stands for, and its name; None if it needs none."""
    if entry.resource_claim_name is not None:
        return True, entry.resource_claim_name
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return True, status.resource_claim_name
    return False, None


def is_owner(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether a claim was created for this very pod."""
    owner = claim.metadata.controller()
    return owner is not None and owner.uid == pod.uid
