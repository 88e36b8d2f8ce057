"""Cells of workloads, jobs and autoscalers."""

from __future__ import annotations

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.printing.shared_cells import NONE, UNKNOWN, holds, listed


def ready_replicas(obj: Tree) -> str:
    return f"{dig(obj, 'status', 'readyReplicas') or 0}/{dig(obj, 'spec', 'replicas') or 0}"


def job_status(job: Tree) -> str:
    conditions = dig(job, "status", "conditions")
    for type in ("Complete", "Failed"):
        if holds(conditions, type):
            return type
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    for type in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if holds(conditions, type):
            return type
    return "Running"


def completions(job: Tree) -> str:
    succeeded = dig(job, "status", "succeeded") or 0
    desired = dig(job, "spec", "completions")
    if desired is not None:
        return f"{succeeded}/{desired}"
    parallelism = dig(job, "spec", "parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def metrics(autoscaler: Tree) -> str:
    specs = dig(autoscaler, "spec", "metrics") or []
    statuses = dig(autoscaler, "status", "currentMetrics") or []
    statuses = statuses + [{}] * (len(specs) - len(statuses))
    texts = [_metric(spec, status) for spec, status in zip(specs, statuses, strict=False)]
    return listed(texts, none=NONE, most=2, separator=", ")


def _metric(spec: Tree, status: Tree) -> str:
    """Format one metric of an autoscaler: its current and its target value."""
    kind: str = spec.get("type") or " "
    member = kind[0].lower() + kind[1:]
    source = spec.get(member)
    if source is None:
        return "<unknown type>"
    target, current = source.get("target") or {}, dig(status, member, "current") or {}
    if member in ("resource", "containerResource"):
        if "averageValue" in target:
            shown = f"{current.get('averageValue', UNKNOWN)}/{target['averageValue']}"
        else:
            shown = f"{_percent(current, UNKNOWN)}/{_percent(target, '<auto>')}"
        return f"{source.get('name', '')}: {shown}"
    average = "averageValue" in target
    value = "averageValue" if average else "value"
    shown = f"{current.get(value, UNKNOWN)}/{target.get(value, '')}"
    return f"{shown} (avg)" if average and member != "pods" else shown


def _percent(value: Tree, default: str) -> str:
    utilization = value.get("averageUtilization")
    return default if utilization is None else f"{utilization}%"


def controller(owners: list[Tree] | None) -> str:
    for owner in owners or ():
        if owner.get("controller"):
            group = owner["apiVersion"].partition("/")[0] if "/" in owner["apiVersion"] else ""
            kind = f"{owner['kind']}.{group}" if group else owner["kind"]
            return f"{kind.lower()}/{owner['name']}"
    return NONE


def group_policy(gang: Tree | None) -> str:
    return "Basic" if gang is None else "Gang"


def group_status(conditions: list[Tree] | None) -> str:
    """The status of a PodGroup."""
    by_type = {condition["type"]: condition for condition in conditions or ()}
    if "DisruptionTarget" in by_type:
        return str(by_type["DisruptionTarget"].get("reason", ""))
    if "PodGroupScheduled" not in by_type:
        return "Pending"
    return "Scheduled" if by_type["PodGroupScheduled"]["status"] == "True" else "Unschedulable"
