"""The claims that pods mount: a pod starts when all of them are bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mooring.api.kinds import PERSISTENT_VOLUME_CLAIMS
from mooring.api.objects import Pod
from mooring.api.storage import PersistentVolumeClaim
from mooring.client.cache import Cache


class Claims:
    """Knows which pods wait for which claims."""

    def __init__(self, cache: Cache, wake: Callable[[str], None]) -> None:
        self._wake = wake
        self._waiting: dict[str, set[str]] = {}  # the keys of pods, by the key of the claim
        self._claims = cache.follow(PERSISTENT_VOLUME_CLAIMS)
        self._claims.subscribe(self._changed)

    def missing(self, pod: Pod) -> str:
        """What a pod has to wait for, in kubelet's words; it is then woken when that changes."""
        for volume, name in claimed_volumes(pod):
            key = f"{pod.namespace}/{name}"
            problem = _problem(self._claims.get(key), name)
            if problem:
                self._waiting.setdefault(key, set()).add(pod.key)
                return (
                    f"Unable to attach or mount volumes: unmounted volumes=[{volume}], "
                    f"unattached volumes=[], failed to process volumes=[{volume}]: "
                    f"error processing PVC {key}: {problem}"
                )
        return ""

    def _changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None:
            for pod in self._waiting.pop(new.key, ()):
                self._wake(pod)


def claimed_volumes(pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield the name and the claim of every volume that is one."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.name, volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield volume.name, f"{pod.name}-{volume.name}"


def _problem(claim: PersistentVolumeClaim | None, name: str) -> str:
    if claim is None:
        return f'failed to fetch PVC from API server: persistentvolumeclaims "{name}" not found'
    if claim.metadata.deletion_timestamp is not None:
        return "PVC is being deleted"
    if claim.status.phase != "Bound" or not claim.spec.volume_name:
        return "PVC is not bound"
    return ""
