"""Events. Those of events.k8s.io must be complete; those of the core group need less."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.errors import invalid_value, required
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.fields import Causes, immutable
from mooring.sandbox.apiserver.validation.names import qualified_name

_NEW: Final = "events.k8s.io/v1"
_ELSEWHERE: Final = "does not match event.namespace"
_LONGEST: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_NEEDED: Final = ("reportingInstance", "action", "reason")
_OLD_FIELDS: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
_FIXED: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type",
    "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip


def event(obj: Tree) -> Causes:
    """Validate a new event, in the form in which both kinds are stored."""
    yield from _any_event(obj)
    if obj.get("apiVersion") != _NEW:
        return
    yield from _series(obj)
    if not obj.get("eventTime"):
        yield required("eventTime")
    if obj.get("type") not in ("Normal", "Warning"):
        yield invalid_value("type", "", f"has invalid value: {obj.get('type', '')}")
    for name in _OLD_FIELDS:
        if obj.get(name):
            yield invalid_value(name, "", "needs to be unset")


def event_update(obj: Tree, old: Tree) -> Causes:
    yield from _any_event(obj)
    if obj.get("apiVersion") != _NEW:
        return
    if obj.get("series") != old.get("series"):
        yield from _series(obj)
    for name in _FIXED:
        shown = "reportingController" if name == "reportingComponent" else name
        yield from immutable(shown, obj.get(name) or None, old.get(name) or None)


def _any_event(obj: Tree) -> Causes:
    namespace = obj["metadata"].get("namespace", "")
    about = (obj.get("involvedObject") or {}).get("namespace", "")
    if not obj.get("eventTime"):
        if about != namespace and (about or namespace not in ("", "default")):
            yield invalid_value("involvedObject.namespace", about, _ELSEWHERE)
        return
    if not about and namespace not in ("default", "kube-system"):
        yield invalid_value("involvedObject.namespace", about, _ELSEWHERE)
    controller = "reportingController" if obj.get("apiVersion") == _NEW else "reportingComponent"
    if not obj.get("reportingComponent"):
        yield required(controller)
    for problem in qualified_name(obj.get("reportingComponent", "")):
        yield invalid_value(controller, obj.get("reportingComponent", ""), problem)
    for name, longest in _LONGEST.items():
        text = obj.get(name, "")
        if not text and name in _NEEDED:
            yield required(name)
        if len(text.encode()) > longest:
            yield invalid_value(name, "", f"can have at most {longest} characters")


def _series(obj: Tree) -> Causes:
    series = obj.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        yield invalid_value("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")
