"""Which claims a pod uses."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.devices import ResourceClaim
from mooring.framework.pod import PodInfo
from mooring.plugins.dynamic_resources.tracker import ClaimTracker


class ClaimProblem(Exception):  # noqa: N818 - says what it is
    """Why a pod cannot be scheduled before something about its claims changes."""


def claims_of(pod: PodInfo, tracker: ClaimTracker) -> Iterator[ResourceClaim]:
    """Yield the claims in `spec.resourceClaims`; raises ClaimProblem for the first that cannot be used."""
    for entry in pod.spec.resource_claims:
        name, generated = entry.resource_claim_name, False
        if name is None:
            status = next((s for s in pod.status.resource_claim_statuses if s.name == entry.name), None)
            if status is None:
                raise ClaimProblem(f'pod "{pod.key}": ResourceClaim not created yet')
            name, generated = status.resource_claim_name, True
            if name is None:
                continue  # the template calls for no claim
        claim = tracker.get(name, pod.namespace)
        if claim is None:
            raise ClaimProblem(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimProblem(f'resourceclaim "{claim.name}" is being deleted')
        if generated:
            owner = claim.metadata.controller()
            if owner is None or owner.uid != pod.uid:
                raise ClaimProblem(
                    f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)"
                )
        yield claim
