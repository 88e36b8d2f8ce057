"""A rehearsal: the plugin at work in a whole scheduler, with every answer it gives looked at."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any

from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.config import from_object
from mooring.core.build import registry_with
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.scheduler import Scheduler
from mooring.framework.plugin import Plugin, overrides
from mooring.framework.pod import PodInfo
from mooring.testing.answers import ALLOWED, Place, check_post_filter, check_pre_filter, check_status
from mooring.testing.clock import START, VirtualClock
from mooring.testing.cluster import Cluster
from mooring.testing.configuration import PluginArgs, config_with
from mooring.testing.subject import Subject

_QUARTER = 15 * 60.0  # no permit plugin can hold a pod for longer
_BINDING = ("pre_bind", "bind", "post_bind")
_SILENT = ("unreserve", "post_bind")  # whose answers nobody reads
_CHECKS: dict[str, Callable[[Place, object], object]] = {
    "pre_filter": check_pre_filter,
    "post_filter": check_post_filter,
    **dict.fromkeys(_SILENT, lambda place, answer: None),
}
_WATCHED = [method for method in (*ALLOWED, *_SILENT) if method != "filter_nodes"]


def check_rehearsal(
    cls: type[Plugin], args: PluginArgs | None, objects: Sequence[KubeObject], pods: Sequence[Pod]
) -> None:
    """Schedule the pods, let all waits run out, and complain of what the plugin did wrong meanwhile."""
    complaints: list[AssertionError] = []
    watched = _watched(cls, complaints)
    registry = registry_with()
    registry[cls.name] = watched
    clock = VirtualClock(START)
    config = config_with([watched], None if args is None else {cls.name: args})
    scheduler = Scheduler(from_object(config), clock=clock, pick=lambda n: 0, registry=registry, record=True)
    cluster = Cluster(scheduler, clock)
    cluster.add(*objects, *pods)
    cluster.run()
    cluster.advance(_QUARTER + 1)
    if complaints:
        raise complaints[0]
    for decision in cluster.decisions:
        if decision.result == "error":
            raise AssertionError(f'plugin "{cls.name}", pod {decision.pod}: {decision.message}')


def _watched(cls: type[Plugin], complaints: list[AssertionError]) -> type[Plugin]:
    """A subclass that looks at every answer on its way out."""
    methods = {m: _watch(getattr(cls, m), m, complaints) for m in _WATCHED if overrides(cls, m)}
    watched: type[Plugin] = type(cls.__name__, (cls,), {"__doc__": cls.__doc__, **methods})
    return watched


def _watch(method: Any, name: str, complaints: list[AssertionError]) -> Callable[..., Any]:
    check = _CHECKS.get(name, check_status)

    @wraps(method)
    def watched(self: Plugin, *args: Any) -> Any:
        place = Place(self.name, name, **_named(name, args))
        try:
            answer = method(self, *args)
            if name in _BINDING and inspect.isawaitable(answer):
                answer = asyncio.run(_awaited(answer))
            check(place, answer)
        except AssertionError as exc:
            complaints.append(exc)
            raise
        except Exception as exc:
            complaint = AssertionError(f"{place}: raised {type(exc).__name__}: {exc}")
            complaint.__cause__ = exc
            complaints.append(complaint)
            raise
        return answer

    return watched


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


def _named(method: str, args: Sequence[Any]) -> dict[str, str]:
    """The pod and the node that a call is about."""
    pod = next((arg for arg in args if isinstance(arg, PodInfo)), None)
    node = args[-1] if isinstance(args[-1], str) else getattr(args[-1], "name", "")
    named = {"pod": "" if pod is None else pod.key}
    if method in ("filter", "add_pod", "remove_pod", "reserve", "unreserve", "permit", *_BINDING):
        named["node"] = node
    return named


# ---- single methods


def check_unreserve(subject: Subject, pods: Sequence[Pod]) -> None:
    """It is called for every reserve plugin when anything later fails, also for one that never reserved."""
    if not subject.has("unreserve"):
        return
    for pod in pods:
        cycle = subject.before_score(pod)
        if cycle is None:
            continue
        node = cycle.candidates.names[0]
        place = subject.at("unreserve", cycle.pod, node, "nothing reserved before")
        subject.ask(place, cycle.state, cycle.pod.on(node), node)


def check_queue_sort(subject: Subject, pods: Sequence[Pod]) -> None:
    """`less` must order pods: never both ways, and the same for a before b before c."""
    if not subject.has("less"):
        return
    queued = [QueuedPodInfo(subject.info(pod), START + i % 3) for i, pod in enumerate(pods)]
    place = Place(subject.name, "less")
    before = {(a, b): _is_less(subject, place, a, b) for a in queued for b in queued}
    for (a, b), less in before.items():
        if less and before[b, a]:
            place.fail(f"{a.pod.key} is before {b.pod.key}, and {b.pod.key} before {a.pod.key}")
        for c in queued if less else ():
            if before[b, c] and not before[a, c]:
                place.fail(
                    f"{a.pod.key} is before {b.pod.key} before {c.pod.key}, but not before {c.pod.key}"
                )


def _is_less(subject: Subject, place: Place, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
    answer = subject.ask(place, a, b)
    if not isinstance(answer, bool):
        place.fail(f"answered {answer!r} for {a.pod.key} and {b.pod.key}; expected True or False")
    return answer
