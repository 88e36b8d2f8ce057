"""The arithmetic of Deployments: how many pods which ReplicaSet should have. Nothing here writes anything."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from mooring.api.workloads import Deployment, ReplicaSet

DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"

INT32_MAX = 2**31 - 1

Sizes = list[tuple[ReplicaSet, int]]
"""ReplicaSets, and how many pods they should have from now on."""


# ---- maxSurge and maxUnavailable ---------------------------------------------------------------------


def scaled_value(limit: int | str | None, total: int, *, round_up: bool) -> int:
    """A number, or a percentage of a total."""
    if limit is None:
        return 0
    if isinstance(limit, int):
        return limit
    percents = int(limit.removesuffix("%"))
    return -(-percents * total // 100) if round_up else percents * total // 100


def fenceposts(deployment: Deployment) -> tuple[int, int]:
    """How many pods there may be too many, and how many too few. One of them has to be possible."""
    rolling = deployment.spec.strategy.rolling_update
    if rolling is None:
        return 0, 1
    replicas = deployment.spec.replicas
    surge = scaled_value(rolling.max_surge, replicas, round_up=True)
    unavailable = scaled_value(rolling.max_unavailable, replicas, round_up=False)
    return (0, 1) if surge == unavailable == 0 else (surge, unavailable)


def rolls(deployment: Deployment) -> bool:
    return deployment.spec.strategy.type == "RollingUpdate"


def max_surge(deployment: Deployment) -> int:
    return fenceposts(deployment)[0] if rolls(deployment) else 0


def max_unavailable(deployment: Deployment) -> int:
    replicas = deployment.spec.replicas
    return min(fenceposts(deployment)[1], replicas) if rolls(deployment) and replicas else 0


def replicas_annotations(deployment: Deployment) -> dict[str, str]:
    """Return the size of the Deployment as annotated on its ReplicaSets: it distinguishes scaling from a
    rollout."""
    replicas = deployment.spec.replicas
    return {DESIRED_REPLICAS: str(replicas), MAX_REPLICAS: str(replicas + max_surge(deployment))}


# ---- rolling out -------------------------------------------------------------------------------------


def size_of_new(deployment: Deployment, new: int, everything: int) -> int:
    """How many pods the new ReplicaSet should have, which has `new` of `everything`."""
    desired = deployment.spec.replicas
    if not rolls(deployment) or new >= desired:
        return desired
    room = desired + max_surge(deployment) - everything
    return new + min(room, desired - new) if room > 0 else new


def sizes_of_old(deployment: Deployment, new: ReplicaSet, old: Iterable[ReplicaSet]) -> Sizes:
    """Which of the old ReplicaSets can shrink: pods that are not available at once, others as far as enough
    stay available. The oldest ones first."""
    active = by_age(rs for rs in old if rs.spec.replicas > 0)
    least = deployment.spec.replicas - max_unavailable(deployment)
    unavailable = new.spec.replicas - new.status.available_replicas
    room = total_size([*active, new]) - least - unavailable
    if room <= 0:
        return []
    sizes = {rs.name: rs.spec.replicas for rs in active}
    for rs in active:
        unhealthy = rs.spec.replicas - rs.status.available_replicas
        if unhealthy < 0 < room:
            return []  # it has just shrunk and not reported yet how many are left
        removed = min(room, unhealthy)
        sizes[rs.name] -= removed
        room -= removed
    spare = new.status.available_replicas + sum(rs.status.available_replicas for rs in active) - least
    for rs in active:
        removed = min(max(spare, 0), sizes[rs.name])
        sizes[rs.name] -= removed
        spare -= removed
    return [(rs, sizes[rs.name]) for rs in active if sizes[rs.name] != rs.spec.replicas]


# ---- scaling while there are several -------------------------------------------------------------------


def desired_replicas(rs: ReplicaSet) -> int | None:
    """The size its Deployment had when the ReplicaSet was last scaled."""
    return _annotated(rs, DESIRED_REPLICAS)


def _annotated(rs: ReplicaSet, name: str) -> int | None:
    text = rs.metadata.annotations.get(name, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None
    return number if number is not None and number <= INT32_MAX else None


def was_scaled(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> bool:
    """Whether the Deployment has another size than its ReplicaSets know of."""
    sizes = (desired_replicas(rs) for rs in replica_sets if rs.spec.replicas > 0)
    return any(size is not None and size != deployment.spec.replicas for size in sizes)


def sizes_when_scaled(deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet]) -> Sizes:
    """The sizes after the Deployment was scaled, or while it is paused. Where there is one active ReplicaSet
    it takes all; several share in proportion to what they have, so that a rollout goes neither faster nor
    slower. ReplicaSets whose size stays are named where they are to remember the Deployment's new size."""
    present = [*old, new] if new is not None else old
    active = [rs for rs in present if rs.spec.replicas > 0]
    desired = deployment.spec.replicas
    if len(active) <= 1:
        latest = [*active, *((new,) if new is not None else ()), *reversed(by_age(old))]
        return [(rs, desired) for rs in latest[:1] if rs.spec.replicas != desired]
    if new is not None and _saturated(deployment, new):
        return [(rs, 0) for rs in by_age(old)[::-1] if rs.spec.replicas > 0]
    return _in_proportion(deployment, active) if rolls(deployment) else []


def _saturated(deployment: Deployment, rs: ReplicaSet) -> bool:
    """Whether a ReplicaSet has all the pods that its Deployment wants, and they are available."""
    sizes = (rs.spec.replicas, desired_replicas(rs), rs.status.available_replicas)
    return all(size == deployment.spec.replicas for size in sizes)


def _in_proportion(deployment: Deployment, active: list[ReplicaSet]) -> Sizes:
    desired = deployment.spec.replicas
    missing = (desired + max_surge(deployment) if desired else 0) - total_size(active)
    if missing == 0:
        return [(rs, rs.spec.replicas) for rs in active]
    # The larger ones first; of like ones the newer when pods are added, the older when they are removed.
    ordered = sorted(by_age(active)[:: -1 if missing > 0 else 1], key=lambda rs: -rs.spec.replicas)
    sizes: list[int] = []
    left = missing
    for rs in ordered:
        share = _share(deployment, rs) if left else 0
        share = min(share, left) if missing > 0 else max(share, left)
        sizes.append(rs.spec.replicas + share)
        left -= share
    sizes[0] = max(sizes[0] + left, 0)
    return list(zip(ordered, sizes, strict=True))


def _share(deployment: Deployment, rs: ReplicaSet) -> int:
    """How many pods more or fewer a ReplicaSet should have, for its part of the whole to stay the same."""
    desired, size = deployment.spec.replicas, rs.spec.replicas
    if desired == 0:
        return -size
    before = _annotated(rs, MAX_REPLICAS) or deployment.status.replicas
    if before == 0:
        return 0
    return _rounded(size * (desired + max_surge(deployment)) / before) - size


def _rounded(number: float) -> int:
    """To the nearest whole number, halves away from zero."""
    return int(number + 0.5) if number >= 0 else int(number - 0.5)


# ---- ReplicaSets -----------------------------------------------------------------------------------------


def by_age(replica_sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """The oldest first."""
    return sorted(replica_sets, key=lambda rs: (rs.metadata.creation_timestamp or "", rs.name))


def total_size(*replica_sets: Iterable[ReplicaSet]) -> int:
    return sum(rs.spec.replicas for rs in chain(*replica_sets))
