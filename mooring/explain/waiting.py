"""Where a pending pod stands in the scheduler, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mooring.api.times import format_time
from mooring.core.queue import Place, QueuedPodInfo
from mooring.core.scheduler import Scheduler
from mooring.core.waiting import HeldPod
from mooring.explain import words
from mooring.explain.explanation import Awaited, Hold, Waiting
from mooring.framework.events import Action, ClusterEvent
from mooring.framework.pod import PodInfo

PERMIT, BINDING = "permit", "binding"


def find_pod(scheduler: Scheduler, key: str, uid: str = "") -> PodInfo | None:
    """The pod of that "namespace/name" as the scheduler last saw it; `uid` is a guess that saves a search."""
    queued = queued_pod(scheduler, key)
    if queued is not None:
        return queued.pod
    current = scheduler.intake.pod(uid) if uid else None
    if current is not None and current.key == key:
        return current
    return next((pod for pod in scheduler.cluster.pods() if pod.key == key), None)


def queued_pod(scheduler: Scheduler, key: str) -> QueuedPodInfo | None:
    """The queue's entry for a pod, also while it is being scheduled or waits for permission."""
    queued = scheduler.queue.get(key)
    if queued is None:
        queued = next((each for each in scheduler.queue.in_flight() if each.pod.key == key), None)
    return queued


def waiting(scheduler: Scheduler, pod: PodInfo, refused_by: Iterable[str] = ()) -> Waiting | None:
    """What a pod without a node waits for; None for a pod that has one.

    `refused_by` are the plugins that would refuse it now, for a pod that was never tried.
    """
    held = scheduler.waiting.get(pod.uid)
    if held is not None:
        return _held(held)
    if scheduler.cluster.is_assumed(pod.uid):
        return Waiting(queue=BINDING)
    queued = queued_pod(scheduler, pod.key)
    return None if queued is None else _queued(scheduler, queued, refused_by)


def _held(held: HeldPod) -> Waiting:
    return Waiting(
        queue=PERMIT,
        attempts=held.cycle.queued.attempts,
        since=format_time(held.since),
        until=format_time(held.deadline),
        held_by=[
            Hold(plugin=plugin, message=held.reasons.get(plugin, "")) for plugin in held.pending_plugins
        ],
    )


def _queued(scheduler: Scheduler, queued: QueuedPodInfo, refused_by: Iterable[str]) -> Waiting:
    pod, queue = queued.pod, scheduler.queue
    refusing = queued.unschedulable_plugins | queued.pending_plugins
    entry = queued
    # Not tried yet, or not since its group became complete: what would it wait for?
    if refused_by and (not refusing or queued.place is Place.ACTIVE):
        entry = QueuedPodInfo(pod, queued.timestamp)
        entry.refused_by({*refused_by, *refusing})
    since = queued.initial_attempt_timestamp
    return Waiting(
        queue=queued.place.value,
        attempts=queued.attempts,
        since=format_time(queued.timestamp if since is None else since),
        last_attempt=format_time(queued.timestamp) if queued.attempts and not queued.gated else "",
        until=_until(scheduler, queued),
        gated_by=queued.gating_plugin,
        gate=_gate(scheduler, queued),
        refused_by=sorted(entry.unschedulable_plugins | entry.pending_plugins),
        nominated_node=queue.nominator.node_of(pod.uid),
        victims=_victims(scheduler, pod),
        events=_events(queue.awaited(entry)),
    )


def _events(awaited: Mapping[str, Iterable[ClusterEvent]]) -> list[Awaited]:
    """What the refusing plugins registered for, in one line for each kind of object."""
    actions: dict[str, Action] = {}
    plugins: dict[str, list[str]] = {}
    for plugin, events in awaited.items():
        for event in events:
            actions[event.resource] = actions.get(event.resource, Action(0)) | event.action
            plugins.setdefault(event.resource, []).append(plugin)
    return [
        Awaited(
            resource=resource,
            text=words.event(resource, action),
            plugins=list(dict.fromkeys(plugins[resource])),
        )
        for resource, action in actions.items()
    ]


def _until(scheduler: Scheduler, queued: QueuedPodInfo) -> str:
    """When the pod comes back by itself, where that is known."""
    end = None
    if queued.place in (Place.BACKOFF, Place.ERROR_BACKOFF):
        end = scheduler.queue.backoff_ends(queued)
    elif queued.place is Place.UNSCHEDULABLE:
        end = queued.not_before
    return "" if end is None else format_time(end)


def _gate(scheduler: Scheduler, queued: QueuedPodInfo) -> str:
    """What the plugin that gates a pod says about it now."""
    if not queued.gated:
        return ""
    return scheduler.profiles[queued.pod.scheduler_name].pre_enqueue(queued.pod).message


def _victims(scheduler: Scheduler, pod: PodInfo) -> list[str]:
    """The pods that a preemption for this one evicts, and that are still there."""
    node = scheduler.cluster.node(scheduler.queue.nominator.node_of(pod.uid))
    evicting = scheduler.evictions.preempting.get(pod.uid, ())
    if node is None:
        return []
    return [
        other.key
        for other in node.pods
        if other.uid in evicting or (other.terminating and other.priority < pod.priority)
    ]
