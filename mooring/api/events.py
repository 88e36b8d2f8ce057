"""Events about objects, as the API group events.k8s.io and the core group have them."""

from __future__ import annotations

from mooring.api.meta import KubeObject, ObjectReference, Value
from mooring.api.times import parse_time

LONGEST_NOTE = 1024  # bytes


class EventSeries(Value, frozen=True):
    count: int = 0
    last_observed_time: str = ""


class Event(KubeObject, kw_only=True):
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    note: str = ""
    type: str = ""
    deprecated_last_timestamp: str | None = None

    @property
    def last_written(self) -> float:
        """Unix seconds of the last observation."""
        observed = "" if self.series is None else self.series.last_observed_time
        times = (
            self.metadata.creation_timestamp,
            self.event_time,
            self.deprecated_last_timestamp,
            observed,
        )
        return max((parse_time(time) for time in times if time), default=0.0)


class EventSource(Value, frozen=True):
    component: str = ""
    host: str = ""


class CoreEvent(KubeObject, kw_only=True):
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    count: int = 0
    type: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""


def truncate_note(note: str) -> str:
    """Shorten an event's note to the 1024 bytes that the API allows."""
    data = note.encode()
    if len(data) <= LONGEST_NOTE:
        return note
    return data[: LONGEST_NOTE - 4].decode(errors="ignore") + " ..."
