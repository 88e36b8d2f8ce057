"""What pods use up: cpu, memory and other resources, as long as they run or may run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mooring.api.devices import IMPLICIT_PREFIX
from mooring.api.meta import ResourceList
from mooring.api.objects import Affinity, Pod, PodAffinityTerm
from mooring.api.quantity import parse
from mooring.api.quantity_texts import written
from mooring.api.quotas import ScopeRequirement
from mooring.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_extended, total_limits, total_requests
from mooring.api.times import parse_time
from mooring.sandbox.quota.amounts import ONE
from mooring.sandbox.quota.quota_kind import QuotaKind

_COMPUTE = (CPU, MEMORY, EPHEMERAL_STORAGE)
_USED = {
    "pods", *_COMPUTE, *(f"requests.{name}" for name in _COMPUTE), *(f"limits.{name}" for name in _COMPUTE)
}  # fmt: skip
_TO_BE_SAID = {name for name in _USED if name.endswith(("cpu", "memory"))}
"""Where a quota is about these, each container has to say what it needs."""
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")


class Pods(QuotaKind[Pod]):
    model = Pod
    parts = frozenset({"", "resize"})

    def uses(self, resource: str) -> bool:
        if resource in _USED or resource == self.count or resource.startswith(_HUGE_PAGES):
            return True
        return resource.startswith("requests.") and _is_extended(resource.removeprefix("requests."))

    def usage(self, obj: Pod, now: float) -> dict[str, str]:
        used = super().usage(obj, now)
        return {**used, **_compute(*written_totals(obj))} if _counts(obj, now) else used

    def in_scope(self, scope: ScopeRequirement, obj: Pod) -> bool:
        match scope.scope_name:
            case "Terminating":
                return _ends_by_itself(obj)
            case "NotTerminating":
                return not _ends_by_itself(obj)
            case "BestEffort":
                return _is_best_effort(obj)
            case "NotBestEffort":
                return not _is_best_effort(obj)
            case "PriorityClass":
                return scope.matches(*filter(None, [obj.spec.priority_class_name]))
            case "CrossNamespacePodAffinity":
                return any(
                    term.namespaces or term.namespace_selector is not None
                    for term in _terms(obj.spec.affinity)
                )
        return False

    def missing(self, resources: Iterable[str], obj: Pod) -> str:
        if obj.spec.resources is not None and (obj.spec.resources.requests or obj.spec.resources.limits):
            return ""
        silent: dict[str, set[str]] = {}
        required = _TO_BE_SAID.intersection(resources)
        for container in (*obj.spec.containers, *obj.spec.init_containers):
            said = _compute(_texts(container.resources.requests), _texts(container.resources.limits))
            for resource in required - said.keys():
                silent.setdefault(resource, set()).add(container.name)
        if not silent:
            return ""
        missing = "; ".join(f"{name} for: {','.join(sorted(silent[name]))}" for name in sorted(silent))
        return f"must specify {missing}"

    def may_need_more(self, old: Pod, new: Pod, subresource: str) -> bool:
        return subresource == "resize" or _ends_by_itself(old) != _ends_by_itself(new)

    def counts_anew(self, old: Pod, new: Pod, now: float) -> bool:
        return (
            (_counts(old, now) and not _counts(new, now))
            or _ends_by_itself(old) != _ends_by_itself(new)
            or _given(old) != _given(new)
        )


def _counts(pod: Pod, now: float) -> bool:
    """Return whether a pod counts: not after it has ended, nor after its deletion is overdue."""
    if pod.finished:
        return False
    meta = pod.metadata
    if meta.deletion_timestamp is None or meta.deletion_grace_period_seconds is None:
        return True
    return now <= parse_time(meta.deletion_timestamp) + meta.deletion_grace_period_seconds


def _given(pod: Pod) -> list[tuple[str, object]]:
    """Return the resources of containers as reported by kubelets."""
    return [
        (status.name, status.resources)
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
        if status.resources is not None
    ]


def _ends_by_itself(pod: Pod) -> bool:
    return pod.spec.active_deadline_seconds is not None


def _is_best_effort(pod: Pod) -> bool:
    whole = pod.spec.resources
    parts = [one.resources for one in (*pod.spec.containers, *pod.spec.init_containers)]
    resources = [whole] if whole is not None and (whole.requests or whole.limits) else parts
    amounts = [amounts for one in resources for amounts in (one.requests, one.limits)]
    return not any(parse(each.get(name, "0")) for each in amounts for name in (CPU, MEMORY))


def _terms(affinity: Affinity | None) -> Iterator[PodAffinityTerm]:
    for one in () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity):
        if one is not None:
            yield from one.required
            yield from (weighted.pod_affinity_term for weighted in one.preferred)


# ---- amounts


def _compute(requests: dict[str, str], limits: dict[str, str]) -> dict[str, str]:
    """How quotas name what a pod or a container asks for, and is limited to."""
    used = {"pods": ONE}
    for name, quantity in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            used[name] = used[f"requests.{name}"] = quantity
        elif _is_extended(name):
            used[f"requests.{name}"] = quantity
    used.update((f"limits.{name}", limits[name]) for name in _COMPUTE if name in limits)
    return used


def _is_extended(name: str) -> bool:
    return is_extended(name) or name.startswith(IMPLICIT_PREFIX)


def written_totals(pod: Pod, *, use_status: bool = True) -> tuple[dict[str, str], dict[str, str]]:
    """Requests and limits of a pod, each in the family of suffixes of the first that names the resource. With
    `use_status`, what it was given if that is more."""
    spec = pod.spec
    resources = [one.resources for one in (*spec.containers, *spec.init_containers)]
    if spec.resources is not None:
        resources.insert(0, spec.resources)
    requests = [*(one.requests for one in resources), spec.overhead]
    limits = [one.limits for one in resources]
    totals = (total_requests(pod, use_status=use_status), total_limits(pod, use_status=use_status))
    return _written(totals[0], requests), _written(totals[1], limits)


def _written(total: dict[str, int], lists: list[ResourceList]) -> dict[str, str]:
    like = {name: str(raw) for amounts in reversed(lists) for name, raw in amounts.items()}
    return {name: written(nano, like.get(name, "")) for name, nano in total.items()}


def _texts(amounts: ResourceList) -> dict[str, str]:
    return {name: str(raw) for name, raw in amounts.items()}
