"""A rehearsal: the plugin at work in a whole scheduler, with every answer it gives looked at."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any

from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.config.enabling import PluginArgs
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.framework.plugin import Plugin, overrides
from mooring.framework.pod import PodInfo
from mooring.runtime.containment import UncontainedError
from mooring.testing.answers import (
    ALLOWED,
    Place,
    check_nothing,
    check_post_filter,
    check_pre_filter,
    check_status,
)
from mooring.testing.clock import START
from mooring.testing.subject import Subject, cluster_for

_BINDING = ("pre_bind", "bind", "post_bind")
_SILENT = ("unreserve", "post_bind")  # whose answers are ignored
_CHECKS: dict[str, Callable[[Place, object], object]] = {
    "pre_filter": check_pre_filter,
    "post_filter": check_post_filter,
    **dict.fromkeys(_SILENT, check_nothing),
}
_WATCHED = [method for method in (*ALLOWED, *_SILENT) if method != "filter_nodes"]


def check_rehearsal(
    cls: type[Plugin], args: PluginArgs | None, objects: Sequence[KubeObject], pods: Sequence[Pod]
) -> None:
    """Schedule the pods, let all waits run out, and complain of what the plugin did wrong meanwhile."""
    cluster = cluster_for(_watched(cls), args)
    try:
        cluster.apply(*objects, *pods)
        for minutes in (0, 1, 15):  # no permit plugin can hold a pod for longer
            for decision in cluster.advance(60 * minutes):
                if decision.result == "error":
                    raise AssertionError(f'plugin "{cls.name}", pod {decision.pod}: {decision.message}')
    except _FoundError as found:
        raise found.complaint from found.complaint.__cause__


class _FoundError(UncontainedError):
    """Ends the rehearsal: a scheduler goes on after all others."""

    def __init__(self, complaint: AssertionError) -> None:
        self.complaint = complaint


def _watched(cls: type[Plugin]) -> type[Plugin]:
    """A subclass that looks at every answer on its way out."""
    methods = {name: _watch(getattr(cls, name), name) for name in _WATCHED if overrides(cls, name)}
    watched: type[Plugin] = type(cls.__name__, (cls,), {"__doc__": cls.__doc__, **methods})
    return watched


def _watch(method: Any, name: str) -> Callable[..., Any]:
    check = _CHECKS.get(name, check_status)

    @wraps(method)
    def watched(self: Plugin, *args: Any) -> Any:
        place = Place(self.name, name, **_named(name, args))
        try:
            answer = method(self, *args)
            if name in _BINDING and inspect.isawaitable(answer):
                answer = asyncio.run(_awaited(answer))
        except Exception as exc:
            complaint = AssertionError(f"{place}: raised {type(exc).__name__}: {exc}")
            complaint.__cause__ = exc
            raise _FoundError(complaint) from exc
        try:
            check(place, answer)
        except AssertionError as complaint:
            raise _FoundError(complaint) from None
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
        subject.ask(place, cycle.state, cycle.pod.placed_on(node), node)


def check_queue_sort(subject: Subject, pods: Sequence[Pod]) -> None:
    """`sorts_before` must order pods: never both ways, and the same for a before b before c."""
    if not subject.has("sorts_before"):
        return
    queued = [QueuedPodInfo(subject.info(pod), START + i % 3) for i, pod in enumerate(pods)]
    place = Place(subject.name, "sorts_before")
    before = {(a, b): _is_less(subject, place, a, b) for a in queued for b in queued}
    for (a, b), is_before in before.items():
        if is_before and before[b, a]:
            place.fail(f"{a.pod.key} is before {b.pod.key}, and {b.pod.key} before {a.pod.key}")
        for c in queued if is_before else ():
            if before[b, c] and not before[a, c]:
                story = f"{a.pod.key} is before {b.pod.key}, that before {c.pod.key}"
                place.fail(f"{story}, but {a.pod.key} is not before {c.pod.key}")


def _is_less(subject: Subject, place: Place, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
    answer = subject.ask(place, a, b)
    if not isinstance(answer, bool):
        place.fail(f"returned {answer!r} for {a.pod.key} and {b.pod.key}; expected True or False")
    return answer
