"""The devices of pods: a pod starts when all its resource claims are allocated and reserved for it."""

from __future__ import annotations

from collections.abc import Callable

from mooring.api.devices import ResourceClaim
from mooring.api.kinds import RESOURCE_CLAIMS
from mooring.api.objects import Pod
from mooring.client.cache import Cache
from mooring.sandbox.controllers.claim_users import claim_name, is_owner

_PREFIX = "Failed to prepare dynamic resources: prepare dynamic resources"


class DeviceClaims:
    """Knows which pods wait for which resource claims."""

    def __init__(self, cache: Cache, wake: Callable[[str], None]) -> None:
        self._wake = wake
        self._waiting: dict[str, set[str]] = {}  # the keys of pods, by the key of the claim
        self._claims = cache.follow(RESOURCE_CLAIMS)
        self._claims.subscribe(self._changed)

    def missing(self, pod: Pod) -> str:
        """What a pod has to wait for, in kubelet's words; it is then woken when that changes."""
        for entry in pod.spec.resource_claims:
            is_known, name = claim_name(pod, entry)
            if not is_known:  # the change of its status wakes the pod
                return f'{_PREFIX}: pod "{pod.key}": ResourceClaim not created yet'
            if name is not None:
                is_generated = entry.resource_claim_template_name is not None
                problem = self._problem(pod, name, must_own=is_generated)
                if problem:
                    return problem
        extended = pod.status.extended_resource_claim_status
        return "" if extended is None else self._problem(pod, extended.resource_claim_name, must_own=True)

    def _problem(self, pod: Pod, name: str, *, must_own: bool) -> str:
        key = f"{pod.namespace}/{name}"
        claim = self._claims.get(key)
        if claim is None:
            problem = f'fetch ResourceClaim {name}: resourceclaims.resource.k8s.io "{name}" not found'
        elif must_own and not is_owner(pod, claim):
            problem = f"ResourceClaim {key} was not created for Pod {pod.key} (Pod is not owner)"
        elif not claim.is_reserved_for(pod.uid):
            problem = f"pod {pod.name} ({pod.uid}) is not allowed to use ResourceClaim {name} ({claim.uid})"
        elif claim.allocation is None:
            problem = f"ResourceClaim {name}: claim {key} not allocated"
        else:
            return ""
        self._waiting.setdefault(key, set()).add(pod.key)
        return f"{_PREFIX}: {problem}"

    def _changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None:
            for pod in self._waiting.pop(new.key, ()):
                self._wake(pod)
