"""Which pods use which claims."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.objects import Pod
from mooring.api.storage import PersistentVolumeClaim
from mooring.client.cache import Collection

_INDEX = "claim"


def index_by_claim(pods: Collection[Pod]) -> None:
    """Have pods found by the claims they use; `users_of` needs it."""
    pods.index(_INDEX, claims_of, key="identity")


def users_of(pods: Collection[Pod], claim: PersistentVolumeClaim) -> list[Pod]:
    return pods.by(_INDEX, claim.key)


def claims_of(pod: Pod) -> tuple[str, ...]:
    """The keys of the claims that a pod uses, or will use once they are made for it."""
    return tuple(_names(pod)) if pod.spec.volumes else ()


def _names(pod: Pod) -> Iterator[str]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"
        elif volume.ephemeral is not None:
            yield f"{pod.namespace}/{pod.name}-{volume.name}"
