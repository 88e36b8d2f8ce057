"""Sums of the resources of a pod's containers."""

from __future__ import annotations

from mooring.api.quantity import parse
from mooring.api.quantity_texts import written
from mooring.sandbox.apiserver.objects import Tree

Nano = dict[str, int]
"""Quantities in nano-units, by resource."""


def aggregate_texts(spec: Tree, kind: str) -> dict[str, str]:
    """Return the sums as quantities, each with the suffixes of the first summand."""
    members = ("containers", "initContainers")
    summands = [_quantities(one, kind) for member in members for one in spec.get(member) or ()]
    sums = {}
    for name, nano in aggregate(spec, kind).items():
        first = next(quantities[name] for quantities in summands if name in quantities)
        sums[name] = written(nano, like=first)
    return sums


def aggregate(spec: Tree, kind: str) -> Nano:
    """Return the `requests` or `limits` of a pod: the sum of its containers and sidecars, or the peak of its
    start, when init containers run in sequence next to the sidecars started before."""
    total: Nano = {}
    for container in spec.get("containers") or ():
        _add(total, _of(container, kind))
    sidecars: Nano = {}
    peak: Nano = {}
    for container in spec.get("initContainers") or ():
        own = _of(container, kind)
        if container.get("restartPolicy") == "Always":
            _add(total, own)
            _add(sidecars, own)
            own = sidecars
        else:
            own = {name: nano + sidecars.get(name, 0) for name, nano in own.items()}
        for name, nano in own.items():
            peak[name] = max(peak.get(name, 0), nano)
    return {name: max(total.get(name, 0), peak.get(name, 0)) for name in (*total, *peak)}


def _of(container: Tree, kind: str) -> Nano:
    return {name: parse(quantity) for name, quantity in _quantities(container, kind).items()}


def _quantities(container: Tree, kind: str) -> dict[str, str]:
    return (container.get("resources") or {}).get(kind) or {}


def _add(total: Nano, more: Nano) -> None:
    for name, nano in more.items():
        total[name] = total.get(name, 0) + nano
