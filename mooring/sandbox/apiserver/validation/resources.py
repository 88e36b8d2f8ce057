"""Names and quantities of resources of containers, pods and nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache

from mooring.api.quantity import NANO, QuantityError, parse
from mooring.sandbox.apiserver.errors import (
    Cause,
    duplicate,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
    show,
)
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.fields import NEGATIVE, NOT_POSITIVE, Causes, text
from mooring.sandbox.apiserver.validation.names import dns_label, qualified_name

Quantities = Mapping[str, str]

HUGE_PAGES = "hugepages-"
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_COUNTED = frozenset(
    {
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip
_STANDARD = frozenset(
    {
        *_COUNTED,
        *(prefix + name for prefix in ("", "requests.", "limits.") for name in _COMPUTE),
        "storage",
        "requests.storage",
    }
)
_POD_LEVEL = ("cpu", "memory")


def is_native(name: str) -> bool:
    """Whether a resource is a native one: names without a domain are."""
    return "/" not in name or "kubernetes.io/" in name


def is_huge_pages(name: str) -> bool:
    return name.startswith(HUGE_PAGES)


def overcommits(name: str) -> bool:
    """Whether limits may exceed requests."""
    return is_native(name) and not is_huge_pages(name)


@lru_cache(maxsize=1024)
def is_extended(name: str) -> bool:
    if is_native(name) or name.startswith("requests."):
        return False
    return not qualified_name(f"requests.{name}")


def is_standard(name: str) -> bool:
    return name in _STANDARD or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}"))


def is_quota_standard(name: str) -> bool:
    return is_standard(name) and name != "storage"


@lru_cache(maxsize=1024)
def _is_whole(name: str) -> bool:
    """Whether a resource has whole numbers only."""
    return name in _COUNTED or is_extended(name)


# ---- names ----------------------------------------------------------------------------------------


def resource_name(path: str, name: str) -> Causes:
    problems = qualified_name(name)
    for problem in problems:
        yield invalid_value(path, name, problem)
    if not problems and "/" not in name and not is_standard(name):
        yield invalid_value(path, name, "must be a standard resource type or fully qualified")


def container_resource_name(path: str, name: str) -> Causes:
    yield from resource_name(path, name)
    if "/" not in name:
        if name not in _COMPUTE and not is_huge_pages(name):
            yield invalid_value(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid_value(path, name, "doesn't follow extended resource name standard")


def pod_resource_name(path: str, name: str) -> Causes:
    causes = list(resource_name(path, name))
    yield from causes
    if not causes and name not in _POD_LEVEL and not is_huge_pages(name):
        yield not_supported(path, name, sorted((*_POD_LEVEL, HUGE_PAGES)))


# ---- quantities -----------------------------------------------------------------------------------


def resource_value(path: str, name: str, quantity: str) -> Causes:
    """Validate a quantity: not negative, and whole if the resource cannot be divided."""
    nano = parse(quantity)
    if nano < 0:
        yield invalid_value(path, quantity, NEGATIVE)
    if nano % NANO and _is_whole(name):
        yield invalid_value(path, quantity, "must be an integer")


def positive_quantity(path: str, quantity: str) -> Causes:
    if parse(quantity) <= 0:
        yield invalid_value(path, quantity, NOT_POSITIVE)


def _huge_pages_value(path: str, name: str, quantity: str) -> Causes:
    try:
        size = parse(name.removeprefix(HUGE_PAGES))
    except QuantityError:
        size = 0
    if size <= 0 or size % NANO or parse(quantity) % size:
        why = f"{quantity} is not positive integer multiple of {name}"
        yield invalid_value(path, quantity, why)


NameRule = Callable[[str, str], Causes]


@lru_cache(maxsize=1024)
def _good_name(rule: NameRule, name: str) -> bool:
    return not any(rule("", name))


def resource_requirements(
    path: str, requirements: Tree, claims: Collection[str] = (), rule: NameRule = container_resource_name
) -> Causes:
    """Validate requests, limits and claims of a container, or of a pod."""
    requests: Quantities = requirements.get("requests") or {}
    limits: Quantities = requirements.get("limits") or {}
    pages = False
    for kind, quantities in (("limits", limits), ("requests", requests)):
        for name, quantity in quantities.items():
            nano, at = parse(quantity), f"{path}.{kind}[{name}]"
            if not _good_name(rule, name):
                yield from rule(at, name)
            if nano < 0 or nano % NANO:
                yield from resource_value(at, name, quantity)
            if kind == "requests" and not (name in limits and nano == parse(limits[name])):
                yield from _request(path, name, quantity, limits.get(name))
            if name.startswith(HUGE_PAGES):
                pages = True
                yield from _huge_pages_value(at, name, quantity)
    if pages and not {"cpu", "memory"} & {*requests, *limits}:
        yield forbidden_value(path, "HugePages require cpu or memory")
    if requirements.get("claims"):
        yield from _claims(f"{path}.claims", requirements["claims"], claims)


def _request(path: str, name: str, quantity: str, limit: str | None) -> Causes:
    if limit is None:
        if not overcommits(name):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    request, most = parse(quantity), parse(limit)
    if request != most and not overcommits(name):
        yield invalid_value(f"{path}.requests", quantity, f"must be equal to {name} limit of {limit}")
    elif request > most:
        why = f"must be less than or equal to {name} limit of {limit}"
        yield invalid_value(f"{path}.requests", quantity, why)


def _claims(path: str, claims: list[Tree], names: Collection[str]) -> Causes:
    """Validate the claims of a container: unique, as a whole or by their requests."""
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        at, name, request = f"{path}[{index}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            yield required(at)
            continue
        key = f"{name}/{request}" if request else name
        if request and name not in seen:
            yield from text(f"{at}.request", request, dns_label)
        if name in seen or key in seen:
            yield duplicate(at, name if name in seen else key)
        elif not request and any(one.startswith(f"{name}/") for one in seen):
            yield duplicate(at, name)
        seen.add(key)
        if name not in names:
            which = f": {', '.join(sorted(names))}" if names else " which is empty"
            why = f"must be one of the names in pod.spec.resourceClaims{which}"
            yield Cause("FieldValueNotFound", at, f"Not found: {show(name)}: {why}")
