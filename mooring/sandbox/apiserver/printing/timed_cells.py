"""Cells that show how long ago something happened."""

from __future__ import annotations

from mooring.api.times import parse_time
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.printing.ages import Ages, human_duration
from mooring.sandbox.apiserver.printing.pod_cells import Containers


def since(time: str, ages: Ages) -> str:
    return ages.since(time)


def first_seen(event: Tree, ages: Ages) -> str:
    return ages.since(event.get("firstTimestamp") or event.get("eventTime"))


def last_seen(event: Tree, ages: Ages) -> str:
    series = event.get("series")
    if series is not None:
        return ages.since(series.get("lastObservedTime"))
    last = event.get("lastTimestamp")
    return ages.since(last) if last else first_seen(event, ages)


def restarts(containers: Containers, ages: Ages) -> str:
    count, last = containers.restarts.count, containers.restarts.last
    return f"{count} ({ages.since(last)} ago)" if count and last else str(count)


def job_duration(status: Tree | None, ages: Ages) -> str:
    started, completed = (status or {}).get("startTime"), (status or {}).get("completionTime")
    if not started:
        return ""
    if not completed:
        return ages.since(started)
    return human_duration(parse_time(completed) - parse_time(started))
