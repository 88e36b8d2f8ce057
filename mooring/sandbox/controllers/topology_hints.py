"""Topology mode Auto: the zone whose clients should use an endpoint of a Service, by the CPUs of zones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from mooring.api.meta import ObjectMeta
from mooring.api.objects import Node
from mooring.api.quantity import QuantityError, parse
from mooring.sandbox.network.services import ZONE

_MODES: Final = ("service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode")
_EXCLUDED: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_OVERLOAD: Final = 0.2  # more than its share that an endpoint may get


def wants_hints(metadata: ObjectMeta) -> bool:
    """Whether the annotations of a Service ask for hints; the deprecated one takes precedence."""
    modes = (metadata.annotations[name] for name in _MODES if name in metadata.annotations)
    return next(modes, "") in ("Auto", "auto")


def counts_alike(old: Node, new: Node) -> bool:
    """Whether two versions of a node are the same to `zone_shares`."""
    return (old.ready, old.metadata.labels, old.status.allocatable.get("cpu")) == (
        new.ready,
        new.metadata.labels,
        new.status.allocatable.get("cpu"),
    )


def zone_shares(nodes: Iterable[Node]) -> dict[str, float]:
    """Return the share of each zone in the CPUs; nothing if a node lacks its zone, or there is only one."""
    cpus: Counter[str] = Counter()
    for node in nodes:
        labels = node.metadata.labels
        if not node.ready or any(name in labels for name in _EXCLUDED):
            continue
        try:
            amount = parse(node.status.allocatable.get("cpu", "0"))
        except QuantityError:
            amount = 0
        if not labels.get(ZONE) or not amount:
            return {}
        cpus[labels[ZONE]] += amount
    return {zone: amount / cpus.total() for zone, amount in cpus.items()} if len(cpus) > 1 else {}


def assign_zones(zones: Sequence[str], shares: dict[str, float]) -> list[str]:
    """Return the zone that each endpoint is for, from the zone that each is in; nothing if hints would
    overload endpoints."""
    desired = _desired(len(zones), shares)
    if not desired or not all(zones):
        return []
    counts = Counter(zones)
    surplus = {zone: counts[zone] - target for zone, target in desired.items()}
    gives, takes = _moves(surplus)
    assigned = []
    for zone in zones:
        taker = next((other for other, count in takes.items() if count), None)
        if gives.get(zone) and taker is not None:
            gives[zone] -= 1
            takes[taker] -= 1
            zone = taker
        assigned.append(zone)
    return assigned


def _desired(count: int, shares: dict[str, float]) -> dict[str, float]:
    """Return how many endpoints each zone should have; nothing if there are too few."""
    if not shares or len(shares) > count:
        return {}
    fewest = {zone: math.ceil(share * count / (1 + _OVERLOAD)) for zone, share in shares.items()}
    if sum(fewest.values()) > count:
        return {}
    return {zone: max(share * count, float(fewest[zone])) for zone, share in shares.items()}


def _moves(surplus: dict[str, float]) -> tuple[Counter[str], Counter[str]]:
    """Return how many endpoints zones give to others and take, from what each has too many."""
    left = {zone: surplus[zone] for zone in sorted(surplus)}
    gives, takes = Counter[str](), Counter[str]()
    while True:
        giver, taker = max(left, key=lambda zone: left[zone]), min(left, key=lambda zone: left[zone])
        most, least = left[giver], -left[taker]
        if most < 0.5 or least < 0.5 or (most < 1.0 and least < 1.0):
            return gives, takes
        gives[giver] += 1
        takes[taker] += 1
        left[giver] -= 1
        left[taker] += 1
