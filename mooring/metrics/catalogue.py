"""The metrics by name: what kube-scheduler v1.36 exposes, with its labels, buckets and stability levels."""

from __future__ import annotations

from itertools import accumulate, repeat
from operator import mul
from typing import NamedTuple


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bounds that grow by a factor. Multiplied one by one as kube-scheduler does, so that the last digits,
    and with them the `le` labels, are the same."""
    return tuple(accumulate(repeat(factor, count - 1), mul, initial=start))


class Definition(NamedTuple):
    """One metric. Those with buckets are histograms."""

    name: str
    stability: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        return f"scheduler_{self.name}"

    @property
    def documentation(self) -> str:
        return f"[{self.stability}] {self.help}"


_ATTEMPT = exponential(0.001, 2, 15)
_POINT = exponential(0.0001, 2, 12)
_PLUGIN = exponential(0.00001, 1.5, 20)
_LONG = exponential(0.01, 2, 20)
_HINT = exponential(0.00001, 2, 12)

SCHEDULE_ATTEMPTS = Definition(
    "schedule_attempts_total",
    "STABLE",
    "Attempts at pods by result: 'unschedulable' where a pod did not fit, 'error' where something failed.",
    ("result", "profile"),
)
SCHEDULING_ATTEMPT_DURATION = Definition(
    "scheduling_attempt_duration_seconds",
    "STABLE",
    "Time from the start of an attempt to its end, the binding included.",
    ("result", "profile"),
    _ATTEMPT,
)
SCHEDULING_ALGORITHM_DURATION = Definition(
    "scheduling_algorithm_duration_seconds",
    "ALPHA",
    "Time to choose a node, or to find that none fits.",
    (),
    _ATTEMPT,
)
EVENT_HANDLING_DURATION = Definition(
    "event_handling_duration_seconds",
    "ALPHA",
    "Time to take in a change of an object, by the event it amounted to.",
    ("event",),
    _POINT,
)
PREEMPTION_VICTIMS = Definition(
    "preemption_victims", "STABLE", "Pods chosen as victims, by preemption.", (), exponential(1, 2, 7)
)
PREEMPTION_ATTEMPTS = Definition("preemption_attempts_total", "STABLE", "Times that preemption was tried.")
PENDING_PODS = Definition(
    "pending_pods",
    "STABLE",
    "Pending pods by queue: 'active', 'backoff', 'unschedulable' (tried without success), and 'gated' (kept "
    "from being tried).",
    ("queue",),
)
QUEUE_INCOMING_PODS = Definition(
    "queue_incoming_pods_total",
    "STABLE",
    "Pods that entered a queue, by the event that brought them.",
    ("queue", "event"),
)
INFLIGHT_EVENTS = Definition(
    "inflight_events",
    "ALPHA",
    "Events kept for pods that are being scheduled, and such pods as 'PodPopped'.",
    ("event",),
)
GOROUTINES = Definition(
    "goroutines", "BETA", "Operations in flight outside the scheduling cycle, by kind.", ("operation",)
)
POD_SCHEDULING_SLI_DURATION = Definition(
    "pod_scheduling_sli_duration_seconds",
    "BETA",
    "Time from a pod's first entry into the active queue to its binding, by the number of attempts.",
    ("attempts",),
    _LONG,
)
POD_SCHEDULING_ATTEMPTS = Definition(
    "pod_scheduling_attempts", "STABLE", "Attempts that pods took to be scheduled.", (), exponential(1, 2, 5)
)
POD_SCHEDULED_AFTER_FLUSH = Definition(
    "pod_scheduled_after_flush_total",
    "ALPHA",
    "Pods scheduled after no event but a timeout had brought them back: a sign of a missing queueing hint.",
)
EXTENSION_POINT_DURATION = Definition(
    "framework_extension_point_duration_seconds",
    "STABLE",
    "Time to run all plugins of an extension point.",
    ("extension_point", "status", "profile"),
    _POINT,
)
PLUGIN_EXECUTION_DURATION = Definition(
    "plugin_execution_duration_seconds",
    "ALPHA",
    "Time that a plugin took at an extension point, in a sample of the attempts.",
    ("plugin", "extension_point", "status"),
    _PLUGIN,
)
QUEUEING_HINT_DURATION = Definition(
    "queueing_hint_execution_duration_seconds",
    "ALPHA",
    "Time that a plugin's queueing hint took.",
    ("plugin", "event", "hint"),
    _PLUGIN,
)
PERMIT_WAIT_DURATION = Definition(
    "permit_wait_duration_seconds",
    "BETA",
    "Time that pods were held by permit plugins.",
    ("result",),
    _ATTEMPT,
)
CACHE_SIZE = Definition(
    "cache_size", "ALPHA", "Nodes, pods and assumed pods that the scheduler knows of.", ("type",)
)
UNSCHEDULABLE_PODS = Definition(
    "unschedulable_pods",
    "BETA",
    "Refused pods by plugin. A pod counts for every plugin that refused it: sums over plugins mean nothing.",
    ("plugin", "profile"),
)
PLUGIN_EVALUATION = Definition(
    "plugin_evaluation_total",
    "BETA",
    "Attempts in which a plugin took part at PreFilter, Filter, PreScore or Score.",
    ("plugin", "extension_point", "profile"),
)
PREEMPTION_DURATION = Definition(
    "preemption_goroutines_duration_seconds",
    "ALPHA",
    "Time from the choice of victims until all of them are gone or going.",
    ("result",),
    _LONG,
)
PREEMPTION_EXECUTION = Definition(
    "preemption_goroutines_execution_total", "ALPHA", "Preemptions carried out.", ("result",)
)

RESOURCE_CLAIM_CREATES = Definition(
    "resourceclaim_creates_total",
    "ALPHA",
    "Number of ResourceClaims creation requests within scheduler",
    ("status",),
)
BINDING_CONDITIONS_ALLOCATIONS = Definition(
    "dra_bindingconditions_allocations_total",
    "ALPHA",
    "Number of allocations using devices with BindingConditions, counted per driver per scheduling attempt",
    ("profile", "driver", "status"),
)
BINDING_CONDITIONS_WAIT = Definition(
    "dra_bindingconditions_wait_duration_seconds",
    "ALPHA",
    "Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
    ("profile", "driver", "status"),
    exponential(0.1, 2, 14),
)

POD_GROUP_ATTEMPTS = Definition(
    "podgroup_schedule_attempts_total",
    "ALPHA",
    "Attempts at pod groups by result: 'unschedulable' without a place for them, 'error' after a failure.",
    ("result", "profile"),
)
POD_GROUP_ATTEMPT_DURATION = Definition(
    "podgroup_scheduling_attempt_duration_seconds",
    "ALPHA",
    "Time from the start of an attempt at a pod group until its members are handed over to be bound.",
    ("result", "profile"),
    _ATTEMPT,
)
POD_GROUP_ALGORITHM_DURATION = Definition(
    "podgroup_scheduling_algorithm_duration_seconds",
    "ALPHA",
    "Time to plan a pod group.",
    (),
    _ATTEMPT,
)

NEVER_OBSERVED = (
    Definition(
        "batch_attempts_total",
        "ALPHA",
        "Not used: pods of one shape share their work.",
        ("profile", "result"),
    ),
    Definition(
        "batch_cache_flushed_total", "ALPHA", "Not used: see batch_attempts_total.", ("profile", "reason")
    ),
    Definition(
        "get_node_hint_duration_seconds",
        "ALPHA",
        "Not used: see batch_attempts_total.",
        ("hinted", "profile"),
        _HINT,
    ),
    Definition(
        "store_schedule_results_duration_seconds",
        "ALPHA",
        "Not used: see batch_attempts_total.",
        ("profile",),
        _HINT,
    ),
)
"""Metrics of kube-scheduler's batching, which this scheduler has no counterpart to. They are named, so that
dashboards find the families, and have no samples."""
