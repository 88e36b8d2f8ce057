"""LimitRanger: default and check the resources of containers by the LimitRanges of the namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from mooring.api.quantity import NANO, parse
from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.calls import TooLongError
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import forbidden
from mooring.sandbox.apiserver.mirror import Mirror
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.metadata import MOST_ANNOTATION_BYTES
from mooring.sandbox.apiserver.validation.totals import aggregate_texts

Quantities = Mapping[str, str]

_RANGES: Final = "limitranges"
_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_POD_LEVEL: Final = ("cpu", "memory")
_LONG: Final = 5000  # quantities to compare
_MOST_PROBLEMS: Final = 1000


def _read(trees: Iterable[Tree]) -> dict[str, list[list[Tree]]]:
    """Return the limits of each LimitRange, by namespace."""
    by_namespace: dict[str, list[list[Tree]]] = {}
    for tree in trees:
        limits = dig(tree, "spec", "limits") or []
        by_namespace.setdefault(tree["metadata"]["namespace"], []).append(limits)
    return by_namespace


class LimitRanger(AdmissionPlugin):
    operations = frozenset({"CREATE", "UPDATE"})
    storages = frozenset({"pods", "persistentvolumeclaims"})
    subresources = True
    needs = (_RANGES,)

    def __init__(self) -> None:
        self._ranges = Mirror(_RANGES, _read)

    def _limits(self, write: Write, old: Tree | None) -> list[list[Tree]]:
        """Return the limits that apply to this write."""
        ranges = self._ranges.get(write.api.store).get(write.namespace)
        if not ranges or (old is not None and "deletionTimestamp" in old["metadata"]):
            return []
        if write.resource.storage == "pods":
            matters = write.subresource == "resize" if old is not None else not write.subresource
        else:
            matters = not write.subresource
        return ranges if matters else []

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if write.resource.storage == "pods":
            ranges = self._limits(write, old)
            if ranges and not write.api.may_take_long and _work(obj, ranges) > _LONG:
                raise TooLongError
            for limits in ranges:
                _set_defaults(obj, limits)

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        for limits in self._limits(write, old):
            find_problems = (
                _claim_problems if write.resource.storage == "persistentvolumeclaims" else _pod_problems
            )
            problems = list(dict.fromkeys(islice(find_problems(obj, limits), _MOST_PROBLEMS)))
            if problems:
                why = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
                raise forbidden("", write.resource.plural, write.name, why)


# ---- defaults -------------------------------------------------------------------------------------


def _work(pod: Tree, ranges: list[list[Tree]]) -> int:
    """Return how many quantities there are to compare: each of the ranges with each container."""
    bounds = sum(len(amounts) for limits in ranges for one in limits for amounts in one.values())
    return bounds * len(pod["spec"].get("containers") or ())


def _set_defaults(pod: Tree, limits: list[Tree]) -> None:
    """Fill in what containers lack, until the annotation about it makes the pod invalid."""
    requests: dict[str, str] = {}
    most: dict[str, str] = {}
    for limit in limits:
        if limit.get("type") == "Container":
            requests.update(limit.get("defaultRequest") or {})
            most.update(limit.get("default") or {})
    changes: list[str] = []
    left = MOST_ANNOTATION_BYTES
    for member, name in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(member) or ():
            if left < 0:
                break
            added = _fill(container, "requests", requests, f"request for {name}")
            added += _fill(container, "limits", most, f"limit for {name}")
            changes += added
            left -= sum(map(len, added))
    if changes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(changes)}"


def _fill(container: Tree, member: str, defaults: Quantities, what: str) -> list[str]:
    resources = container.setdefault("resources", {})
    present = resources.get(member) or {}
    missing = sorted(name for name in defaults if name not in present)
    if not missing:
        return []
    resources[member] = {**present, **{name: defaults[name] for name in missing}}
    return [f"{', '.join(missing)} {what} {container.get('name', '')}"]


# ---- bounds ---------------------------------------------------------------------------------------


def _pod_problems(pod: Tree, limits: list[Tree]) -> Iterator[str]:
    spec = pod["spec"]
    for limit in limits:
        kind = limit.get("type", "")
        if kind == "Container":
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                resources = container.get("resources") or {}
                requests, most = resources.get("requests") or {}, resources.get("limits") or {}
                yield from _problems(kind, limit, requests, most)
        elif kind == "Pod":
            yield from _problems(kind, limit, _of_pod(spec, "requests"), _of_pod(spec, "limits"))


def _of_pod(spec: Tree, member: str) -> Quantities:
    own = (spec.get("resources") or {}).get(member) or {}
    return {
        **aggregate_texts(spec, member),
        **{name: quantity for name, quantity in own.items() if name in _POD_LEVEL},
    }


def _claim_problems(claim: Tree, limits: list[Tree]) -> Iterator[str]:
    requests = dig(claim, "spec", "resources", "requests") or {}
    for limit in limits:
        if limit.get("type") == "PersistentVolumeClaim":
            for name, least in (limit.get("min") or {}).items():
                yield from _minimum("PersistentVolumeClaim", name, least, requests, {})
            for name, most in (limit.get("max") or {}).items():
                yield from _maximum("PersistentVolumeClaim", name, most, {}, requests, noun="request")


Bound = Callable[[str, str, str, Quantities, Quantities], Iterator[str]]


def _problems(kind: str, limit: Tree, requests: Quantities, limits: Quantities) -> Iterator[str]:
    bounds: tuple[tuple[str, Bound], ...] = (
        ("min", _minimum),
        ("max", _maximum),
        ("maxLimitRequestRatio", _ratio),
    )
    for member, bound in bounds:
        for name, quantity in (limit.get(member) or {}).items():
            yield from bound(kind, name, quantity, requests, limits)


def _minimum(kind: str, name: str, least: str, requests: Quantities, limits: Quantities) -> Iterator[str]:
    usage = f"minimum {name} usage per {kind} is {least}"
    if name not in requests:
        yield f"{usage}.  No request is specified"
    elif parse(requests[name]) < parse(least):
        yield f"{usage}, but request is {requests[name]}"
    elif name in limits and parse(limits[name]) < parse(least):
        yield f"{usage}, but limit is {limits[name]}"


def _maximum(
    kind: str, name: str, most: str, requests: Quantities, limits: Quantities, noun: str = "limit"
) -> Iterator[str]:
    usage = f"maximum {name} usage per {kind} is {most}"
    if name not in limits:
        yield f"{usage}.  No {noun} is specified"
    elif parse(limits[name]) > parse(most):
        yield f"{usage}, but {noun} is {limits[name]}"
    elif name in requests and parse(requests[name]) > parse(most):
        yield f"{usage}, but request is {requests[name]}"


def _ratio(kind: str, name: str, most: str, requests: Quantities, limits: Quantities) -> Iterator[str]:
    usage = f"{name} max limit to request ratio per {kind} is {most}"
    request, limit = parse(requests.get(name, "0")), parse(limits.get(name, "0"))
    if request == 0:
        yield f"{usage}, but no request is specified or request is 0"
    elif limit == 0:
        yield f"{usage}, but no limit is specified or limit is 0"
    elif limit * NANO > parse(most) * request:
        yield f"{usage}, but provided ratio is {limit / request:f}"
