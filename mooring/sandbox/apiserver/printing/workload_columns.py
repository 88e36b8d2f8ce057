"""Kinds that make and keep pods: of apps, batch, policy and autoscaling, and ReplicationController."""

from __future__ import annotations

from typing import Final

from mooring.api.times import parse_time
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.printing.ages import Ages, human_duration
from mooring.sandbox.apiserver.printing.columns import (
    AGE,
    NAME,
    Column,
    Printer,
    at,
    boolean,
    count,
    integer,
    number,
    of,
    wide,
)
from mooring.sandbox.apiserver.printing.texts import (
    NONE,
    UNKNOWN,
    UNSET,
    holds,
    labels,
    listed,
    selector,
    selector_or_none,
    template_columns,
)

_READY: Final = "Number of the pod with ready state"
_DEPLOYED: Final = "apps_v1.DeploymentStatus"


def _ready(obj: Tree) -> str:
    return f"{dig(obj, 'status', 'readyReplicas') or 0}/{dig(obj, 'spec', 'replicas') or 0}"


def _replicas(spec: str, status: str) -> tuple[Column, Column, Column]:
    """The columns of kinds that are nothing but a number of pods; `spec` and `status` are their types."""
    return (
        integer("Desired", number("spec", "replicas"), f"{spec}.replicas"),
        integer("Current", number("status", "replicas"), f"{status}.replicas"),
        integer("Ready", number("status", "readyReplicas"), f"{status}.readyReplicas"),
    )


def _scheduled(name: str, member: str) -> Column:
    return integer(name, number("status", member), f"apps_v1.DaemonSetStatus.{member}")


# ---- jobs -----------------------------------------------------------------------------------------


def _job_status(job: Tree) -> str:
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


def _completions(job: Tree) -> str:
    succeeded = dig(job, "status", "succeeded") or 0
    wanted = dig(job, "spec", "completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = dig(job, "spec", "parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: Tree, ages: Ages) -> str:
    started, completed = dig(job, "status", "startTime"), dig(job, "status", "completionTime")
    if not started:
        return ""
    if not completed:
        return ages.since(started)
    return human_duration(parse_time(completed) - parse_time(started))


def _suspended(job: Tree) -> str:
    found = dig(job, "spec", "suspend")
    return UNSET if found is None else str(bool(found))


def _last_schedule(job: Tree, ages: Ages) -> str:
    found = dig(job, "status", "lastScheduleTime")
    return ages.since(found) if found else NONE


# ---- autoscaling ----------------------------------------------------------------------------------


def _scale_target(autoscaler: Tree) -> str:
    target = dig(autoscaler, "spec", "scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _targets(autoscaler: Tree) -> str:
    specs = dig(autoscaler, "spec", "metrics") or []
    statuses = dig(autoscaler, "status", "currentMetrics") or []
    statuses = statuses + [{}] * (len(specs) - len(statuses))
    metrics = [_metric(spec, status) for spec, status in zip(specs, statuses, strict=False)]
    return listed(metrics, none=NONE, most=2, separator=", ")


def _metric(spec: Tree, status: Tree) -> str:
    """One metric of an autoscaler: what it is, and what it shall be."""
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
    found = value.get("averageUtilization")
    return default if found is None else f"{found}%"


def _controller(revision: Tree) -> str:
    for owner in revision["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner["apiVersion"].partition("/")[0] if "/" in owner["apiVersion"] else ""
            kind = f"{owner['kind']}.{group}" if group else owner["kind"]
            return f"{kind.lower()}/{owner['name']}"
    return NONE


def _selector(about: str, *path: str) -> Column:
    return wide("Selector", of(lambda obj: selector_or_none(dig(obj, *path))), about)


def _bound(name: str, member: str, about: str) -> Column:
    """A number or a percentage of a disruption budget."""
    return Column(name, of(lambda obj: str((obj.get("spec") or {}).get(member, "N/A"))), about)


SCALE: Final = Printer(
    NAME._replace(format=""),
    integer("Desired", number("spec", "replicas"), "autoscaling_v1.ScaleSpec.replicas"),
    integer("Available", number("status", "replicas"), "autoscaling_v1.ScaleStatus.replicas"),
    AGE,
)

_AUTOSCALER: Final = "autoscaling_v2.HorizontalPodAutoscalerSpec"

PRINTERS: Final = {
    "replicationcontrollers": Printer(
        NAME,
        *_replicas("core_v1.ReplicationControllerSpec", "core_v1.ReplicationControllerStatus"),
        AGE,
        *template_columns("spec", "template"),
        wide(
            "Selector",
            of(lambda obj: labels(dig(obj, "spec", "selector"))),
            "core_v1.ReplicationControllerSpec.selector",
        ),
    ),
    "replicasets.apps": Printer(
        NAME,
        *_replicas("apps_v1.ReplicaSetSpec", "apps_v1.ReplicaSetStatus"),
        AGE,
        *template_columns("spec", "template"),
        _selector("apps_v1.ReplicaSetSpec.selector", "spec", "selector"),
    ),
    "deployments.apps": Printer(
        NAME,
        Column("Ready", of(_ready), _READY),
        Column("Up-to-date", number("status", "updatedReplicas"), f"{_DEPLOYED}.updatedReplicas"),
        Column("Available", number("status", "availableReplicas"), f"{_DEPLOYED}.availableReplicas"),
        AGE,
        *template_columns("spec", "template"),
        wide(
            "Selector",
            of(lambda obj: selector(dig(obj, "spec", "selector"))),
            "apps_v1.DeploymentSpec.selector",
        ),
    ),
    "statefulsets.apps": Printer(
        NAME, Column("Ready", of(_ready), _READY), AGE, *template_columns("spec", "template")
    ),
    "daemonsets.apps": Printer(
        NAME,
        _scheduled("Desired", "desiredNumberScheduled"),
        _scheduled("Current", "currentNumberScheduled"),
        _scheduled("Ready", "numberReady"),
        _scheduled("Up-to-date", "updatedNumberScheduled"),
        _scheduled("Available", "numberAvailable"),
        Column(
            "Node Selector",
            of(lambda obj: labels(dig(obj, "spec", "template", "spec", "nodeSelector"))),
            "core_v1.PodSpec.nodeSelector",
        ),
        AGE,
        *template_columns("spec", "template"),
        _selector("apps_v1.DaemonSetSpec.selector", "spec", "selector"),
    ),
    "controllerrevisions.apps": Printer(
        NAME,
        Column("Controller", of(_controller), "Controller of the object"),
        Column("Revision", number("revision"), "apps_v1.ControllerRevision.revision"),
        AGE,
    ),
    "jobs.batch": Printer(
        NAME,
        Column("Status", of(_job_status), "Status of the job."),
        Column("Completions", of(_completions), "batch_v1.JobStatus.succeeded"),
        Column("Duration", _duration, "Time required to complete the job."),
        AGE,
        *template_columns("spec", "template"),
        _selector("batch_v1.JobSpec.selector", "spec", "selector"),
    ),
    "cronjobs.batch": Printer(
        NAME,
        Column("Schedule", at("spec", "schedule"), "batch_v1.CronJobSpec.schedule"),
        Column("Timezone", at("spec", "timeZone", default=NONE), "batch_v1.CronJobSpec.timeZone"),
        boolean("Suspend", of(_suspended), "batch_v1.CronJobSpec.suspend"),
        integer("Active", count("status", "active"), "batch_v1.CronJobStatus.active"),
        Column("Last Schedule", _last_schedule, "batch_v1.CronJobStatus.lastScheduleTime"),
        AGE,
        *template_columns("spec", "jobTemplate", "spec", "template"),
        _selector("batch_v1.JobSpec.selector", "spec", "jobTemplate", "spec", "selector"),
    ),
    "poddisruptionbudgets.policy": Printer(
        NAME,
        _bound("Min Available", "minAvailable", "The minimum number of pods that must be available."),
        _bound("Max Unavailable", "maxUnavailable", "The maximum number of pods that may be unavailable."),
        integer(
            "Allowed Disruptions",
            number("status", "disruptionsAllowed"),
            "Calculated number of pods that may be disrupted at this time.",
        ),
        AGE,
    ),
    "horizontalpodautoscalers.autoscaling": Printer(
        NAME,
        Column(
            "Reference",
            of(_scale_target),
            f"{_AUTOSCALER}.scaleTargetRef",
        ),
        Column("Targets", of(_targets), f"{_AUTOSCALER}.metrics"),
        Column(
            "MinPods",
            of(lambda obj: str((obj.get("spec") or {}).get("minReplicas", UNSET))),
            f"{_AUTOSCALER}.minReplicas",
        ),
        Column("MaxPods", number("spec", "maxReplicas"), f"{_AUTOSCALER}.maxReplicas"),
        Column(
            "Replicas",
            number("status", "currentReplicas"),
            "autoscaling_v2.HorizontalPodAutoscalerStatus.currentReplicas",
        ),
        AGE,
    ),
}
