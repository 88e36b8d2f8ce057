"""Jobs and CronJobs."""

from __future__ import annotations

import re
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mooring.sandbox.apiserver.errors import invalid_value, not_supported, required, too_long
from mooring.sandbox.apiserver.kinds.facts import choices
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.fields import Causes, immutable, nonnegatives, one_of
from mooring.sandbox.apiserver.validation.labels import label_selector, matches
from mooring.sandbox.apiserver.validation.names import dns_label
from mooring.sandbox.apiserver.validation.pod_spec import pod_template

_COUNTS: Final = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_FIXED: Final = ("podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_SCHEDULING: Final = ("nodeSelector", "tolerations", "schedulingGates")
_UID, _NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
_LONGEST_CRON_NAME: Final = 52
_MOST_INDEXED: Final = 100_000


def job(obj: Tree) -> Causes:
    yield from _generated_selector(obj)
    yield from _spec("spec", obj["spec"])
    yield from _selects(obj["spec"])
    completions, name = obj["spec"].get("completions"), obj["metadata"].get("name", "")
    if obj["spec"].get("completionMode") == "Indexed" and completions:
        host = f"{name}-{completions - 1}"
        if dns_label(host):
            why = f"will not able to create pod with invalid DNS label: {host}"
            yield invalid_value("metadata.name", name, why)


def _generated_selector(obj: Tree) -> Causes:
    """The labels that the server adds to the pods of a job."""
    spec, selector = obj["spec"], obj["spec"].get("selector")
    if spec.get("manualSelector") or selector is None:
        return
    template_labels = dig(spec, "template", "metadata", "labels") or {}
    uid, name = obj["metadata"].get("uid", ""), obj["metadata"].get("name", "")
    expected = {"controller-uid": uid, "job-name": name, _UID: uid, _NAME: name}
    for key, value in expected.items():
        at = f"spec.template.metadata.labels[{key}]"
        if key not in template_labels:
            yield required(at, f"must be '{value}'")
        elif template_labels[key] != value:
            yield invalid_value(at, template_labels[key], f"must be '{value}'")
    if matches(selector, expected) is False:
        yield invalid_value("spec.selector", selector, "`selector` not auto-generated")


def _selects(spec: Tree) -> Causes:
    selector, template_labels = spec.get("selector"), dig(spec, "template", "metadata", "labels")
    if selector is None:
        yield required("spec.selector")
    else:
        yield from label_selector("spec.selector", selector)
    if selector is None or matches(selector, template_labels) is False:
        why = "`selector` does not match template `labels`"
        yield invalid_value("spec.template.metadata.labels", template_labels, why)


def _spec(path: str, spec: Tree) -> Causes:
    yield from nonnegatives(path, spec, *_COUNTS)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if len(spec.get("managedBy") or "") > 63:
        yield too_long(f"{path}.managedBy", 63)
    yield from _completion(path, spec)
    policy = spec.get("podReplacementPolicy")
    allowed = ("Failed", *(() if spec.get("podFailurePolicy") is not None else ("TerminatingOrFailed",)))
    if policy is not None and policy not in allowed:
        yield not_supported(f"{path}.podReplacementPolicy", policy, allowed)
    yield from pod_template(f"{path}.template", spec.get("template") or {})
    yield from _restart_policy(f"{path}.template.spec.restartPolicy", spec)


def _completion(path: str, spec: Tree) -> Causes:
    mode = spec.get("completionMode")
    if mode is not None and mode not in ("NonIndexed", "Indexed"):
        yield not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        if spec.get("completions") is None:
            yield required(f"{path}.completions", "when completion mode is Indexed")
        parallelism = spec.get("parallelism") or 0
        if parallelism > _MOST_INDEXED:
            why = f"must be less than or equal to {_MOST_INDEXED} when completion mode is Indexed"
            yield invalid_value(f"{path}.parallelism", parallelism, why)
        return
    for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if spec.get(name) is not None:
            yield invalid_value(f"{path}.{name}", spec[name], "requires indexed completion mode")
    if spec.get("successPolicy") is not None:
        yield invalid_value(
            f"{path}.successPolicy", spec["successPolicy"], "requires indexed completion mode"
        )


def _restart_policy(path: str, spec: Tree) -> Causes:
    policy = dig(spec, "template", "spec", "restartPolicy") or ""
    if policy in ("Always", ""):
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(path, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        yield invalid_value(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def job_update(obj: Tree, old: Tree) -> Causes:
    spec, before = obj["spec"], old["spec"]
    yield from _spec("spec", spec)
    yield from _selects(spec)
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        yield from immutable("spec.completions", completions, before.get("completions"))
    elif completions is not None and completions not in (before.get("completions"), spec.get("parallelism")):
        why = "can only be modified in tandem with spec.parallelism"
        yield invalid_value("spec.completions", completions, why)
    yield from immutable("spec.selector", spec.get("selector"), before.get("selector"))
    yield from _template_update(obj, old)
    yield from immutable("spec.completionMode", spec.get("completionMode"), before.get("completionMode"))
    for name in _FIXED:
        yield from immutable(f"spec.{name}", spec.get(name), before.get(name))


def _template_update(obj: Tree, old: Tree) -> Causes:
    """A suspended job that has not started may change its scheduling and resources."""
    new, before = obj["spec"].get("template") or {}, old["spec"].get("template") or {}
    suspended = bool(old["spec"].get("suspend"))
    if suspended and dig(old, "status", "startTime") is None:
        new, before = _without_scheduling(new), _without_scheduling(before)
    if new == before:
        return
    if suspended:
        new, before = _without_resources(new), _without_resources(before)
        yield from immutable("spec.template.spec", new.get("spec"), before.get("spec"))
    else:
        yield from immutable("spec.template", obj["spec"].get("template"), old["spec"].get("template"))


def _without_scheduling(template: Tree) -> Tree:
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    affinity = {name: value for name, value in (spec.get("affinity") or {}).items() if name != "nodeAffinity"}
    kept = {name: value for name, value in spec.items() if name not in (*_SCHEDULING, "affinity")}
    rest = {name: value for name, value in metadata.items() if name not in ("annotations", "labels")}
    return {"metadata": rest, "spec": {**kept, **({"affinity": affinity} if affinity else {})}}


def _without_resources(template: Tree) -> Tree:
    spec: dict[str, Any] = dict(template.get("spec") or {})
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            spec[kind] = [{**container, "resources": {}} for container in spec[kind]]
    return {**template, "spec": spec}


# ---- CronJob --------------------------------------------------------------------------------------

_FIELDS: Final = (  # bounds of each field of a schedule, and names for its numbers
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    (0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
_DESCRIPTORS: Final = (
    "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly",
)  # fmt: skip
_EVERY = re.compile(r"@every ([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+")


def cron_job(obj: Tree) -> Causes:
    yield from _cron_spec(obj["spec"], None)
    name = obj["metadata"].get("name", "")
    if len(name) > _LONGEST_CRON_NAME:
        yield invalid_value("metadata.name", name, f"must be no more than {_LONGEST_CRON_NAME} characters")


def cron_job_update(obj: Tree, old: Tree) -> Causes:
    yield from _cron_spec(obj["spec"], old["spec"])


def _cron_spec(spec: Tree, old: Tree | None) -> Causes:
    schedule, before = spec.get("schedule", ""), (old or {}).get("schedule", "")
    if not schedule:
        yield required("spec.schedule")
    else:
        problem = schedule_problem(schedule)
        if problem:
            yield invalid_value("spec.schedule", schedule, problem)
        if "TZ" in schedule and "TZ" not in before:
            why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            yield invalid_value("spec.schedule", schedule, why)
    yield from nonnegatives("spec", spec, "startingDeadlineSeconds")
    if old is None or spec.get("timeZone") != old.get("timeZone"):
        yield from _time_zone(spec.get("timeZone"))
    policies = choices("batch_v1.CronJobSpec.concurrencyPolicy")
    yield from one_of("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), policies)
    template = dig(spec, "jobTemplate", "spec") or {}
    yield from _spec("spec.jobTemplate.spec", template)
    if template.get("selector") is not None:
        why = "`selector` will be auto-generated"
        yield invalid_value("spec.jobTemplate.spec.selector", template["selector"], why)
    if template.get("manualSelector"):
        yield not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    yield from nonnegatives("spec", spec, "successfulJobsHistoryLimit", "failedJobsHistoryLimit")


def schedule_problem(schedule: str) -> str:
    """Validate a cron schedule, with the messages of the parser that Kubernetes uses."""
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        schedule = schedule.partition(" ")[2].strip()
    if schedule.startswith("@"):
        is_descriptor = schedule in _DESCRIPTORS or _EVERY.fullmatch(schedule)
        return "" if is_descriptor else f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        return f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]"
    problems = (
        _range_problem(part, *bounds)
        for field, bounds in zip(fields, _FIELDS, strict=True)
        for part in field.split(",")
    )
    return next(filter(None, problems), "")


def _range_problem(text: str, low: int, high: int, names: tuple[str, ...]) -> str:
    span, slash, step = text.partition("/")
    if slash and not step.isdecimal():
        return f"failed to parse int from {step}: strconv.Atoi: parsing {step!r}: invalid syntax".replace(
            "'", '"'
        )
    if slash and int(step) == 0:
        return f"step of range should be a positive number: {text}"
    if span in ("*", "?"):
        return ""
    ends = []
    for end in span.split("-"):
        if end.lower() in names:
            ends.append(names.index(end.lower()) + low)
        elif _is_number(end):
            ends.append(int(end))
        else:
            return _no_number(end)
    if len(ends) > 2:
        return f"too many hyphens: {text}"
    if ends[0] < low:
        return f"beginning of range ({ends[0]}) below minimum ({low}): {text}"
    if ends[-1] > high:
        return f"end of range ({ends[-1]}) above maximum ({high}): {text}"
    if ends[0] > ends[-1]:
        return f"beginning of range ({ends[0]}) beyond end of range ({ends[-1]}): {text}"
    return ""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def _no_number(text: str) -> str:
    return f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'


def _time_zone(name: str | None) -> Causes:
    if name is None:
        return
    if not name:
        yield invalid_value("spec.timeZone", name, "timeZone must be nil or non-empty string")
        return
    if name.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield invalid_value("spec.timeZone", name, why)
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield invalid_value("spec.timeZone", name, f"unknown time zone {name}")
