"""The pods that a command line names: by name, by workload, by label, or all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import click

from mooring.api.events import Event
from mooring.api.groups import PodGroup
from mooring.api.jobs import Job
from mooring.api.kinds import DAEMON_SETS, DEPLOYMENTS, EVENTS, JOBS, ApiResource
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.api.selector_text import parse_selector
from mooring.api.selectors import SelectorError, from_requirements, requirement
from mooring.api.times import format_time
from mooring.api.workloads import DaemonSet, Deployment, ReplicaSet, StatefulSet
from mooring.explain.commands import workload
from mooring.explain.explanation import Workload

Replicated = Deployment | ReplicaSet | StatefulSet | DaemonSet | Job

MORE_KINDS: tuple[ApiResource[KubeObject], ...] = (DEPLOYMENTS, DAEMON_SETS, JOBS, EVENTS)  # type: ignore[assignment]
"""What is read of a cluster for workloads, in addition to what a scheduler reads."""

_COMBINED = "(combined from similar events): "
_KINDS: dict[str, type[KubeObject]] = {
    **dict.fromkeys(("pod", "pods", "po"), Pod),
    **dict.fromkeys(("deployment", "deployments", "deploy", "deployment.apps"), Deployment),
    **dict.fromkeys(("replicaset", "replicasets", "rs", "replicaset.apps"), ReplicaSet),
    **dict.fromkeys(("statefulset", "statefulsets", "sts", "statefulset.apps"), StatefulSet),
    **dict.fromkeys(("daemonset", "daemonsets", "ds", "daemonset.apps"), DaemonSet),
    **dict.fromkeys(("job", "jobs", "job.batch"), Job),
    **dict.fromkeys(("podgroup", "podgroups", "pg", "podgroup.scheduling.k8s.io"), PodGroup),
}


class Target(NamedTuple):
    """An object by kind and name; an empty namespace is the default one."""

    kind: type[KubeObject]
    namespace: str
    name: str


def parse(text: str, namespace: str) -> Target:
    """Parse NAME, NAMESPACE/NAME or KIND/NAME. Raises UsageError."""
    before, slash, name = text.rpartition("/")
    kind = _KINDS.get(before.lower())
    if kind is not None and name:
        return Target(kind, namespace, name)
    if slash and namespace not in ("", before):
        raise click.UsageError(f'pod "{text}" is not in namespace "{namespace}"')
    if "/" in before or not name:
        raise click.UsageError(f'"{text}": expected NAME, NAMESPACE/NAME or KIND/NAME')
    return Target(Pod, before or namespace, name)


def matching(pods: Iterable[Pod], selector: str) -> list[Pod]:
    """Return the pods with these labels. Raises UsageError for an invalid selector."""
    try:
        labels = from_requirements(requirement(*term) for term in parse_selector(selector))
    except SelectorError as error:
        raise click.UsageError(f"-l {selector}: {error}") from None
    return [pod for pod in pods if labels.matches(pod.metadata.labels)]


def is_pending(pod: Pod) -> bool:
    return pod.active and not pod.spec.node_name


def pods_of(target: Target, pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods of a workload."""
    mine = [pod for pod in pods if pod.namespace == target.namespace]
    kind = target.kind.__name__
    direct = [pod for pod in mine if _is_controlled(pod, kind, target.name)]
    return direct or [pod for pod in mine if workload(pod) == (kind.lower(), target.name)]


def _is_controlled(obj: KubeObject, kind: str, name: str) -> bool:
    owner = obj.metadata.controller()
    return owner is not None and (owner.kind, owner.name) == (kind, name)


# ---- workloads that lack pods


def describe(owner: Replicated, objects: Sequence[KubeObject]) -> Workload:
    """Return how many pods a workload has and should have, and why pods could not be created."""
    target = Target(type(owner), owner.namespace, owner.name)
    pods = [pod for pod in pods_of(target, (o for o in objects if isinstance(o, Pod))) if pod.active]
    report = Workload(
        workload=f"{type(owner).__name__.lower()}/{owner.name}",
        namespace=owner.namespace,
        desired=_desired(owner),
        pods=len(pods),
        pending=sum(map(is_pending, pods)),
    )
    if report.pods < report.desired:
        _add_failure(report, owner, objects)
    return report


def _desired(owner: Replicated) -> int:
    if isinstance(owner, DaemonSet):
        return owner.status.desired_number_scheduled
    if not isinstance(owner, Job):
        return owner.spec.replicas
    if any(each.type in ("Complete", "Failed") and each.status == "True" for each in owner.status.conditions):
        return 0
    completions = owner.spec.completions
    left = owner.spec.parallelism if completions is None else completions - owner.status.succeeded
    return max(0, min(owner.spec.parallelism, left))


def _add_failure(report: Workload, owner: Replicated, objects: Sequence[KubeObject]) -> None:
    """Add the last FailedCreate event of the workload or its ReplicaSets, or the condition of those."""
    kind = type(owner).__name__
    sets = [o for o in objects if isinstance(o, ReplicaSet) and o.namespace == owner.namespace]
    sets = [each for each in sets if each is owner or _is_controlled(each, kind, owner.name)]
    names = {(kind, owner.name), *(("ReplicaSet", each.name) for each in sets)}
    events = [o for o in objects if isinstance(o, Event) and o.reason == "FailedCreate"]
    events = [
        each
        for each in events
        if each.regarding.namespace == owner.namespace and (each.regarding.kind, each.regarding.name) in names
    ]
    if events:
        last = max(events, key=lambda event: event.last_written)
        report.reason, report.message, report.last = (
            last.reason,
            last.note.removeprefix(_COMBINED),
            format_time(last.last_written),
        )
        return
    for each in sets:
        for condition in each.status.conditions:
            if condition.type == "ReplicaFailure" and condition.status == "True":
                report.reason, report.message = condition.reason, condition.message
                report.last = condition.last_transition_time or ""


def short_workloads(objects: Sequence[KubeObject], namespace: str) -> list[Workload]:
    """Return the workloads whose pods could not be created; ReplicaSets of Deployments count with those."""
    owners = [o for o in objects if isinstance(o, Replicated)]
    owners = [o for o in owners if not isinstance(o, ReplicaSet) or o.metadata.controller() is None]
    described = (describe(o, objects) for o in owners if namespace in ("", o.namespace))
    return [each for each in described if each.message]
