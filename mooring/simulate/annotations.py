"""What the annotations of a pod say about its life."""

from __future__ import annotations

from math import inf

from mooring.api.objects import Pod
from mooring.sandbox.kubelet.scripts import RUN_TIME, START_DELAY
from mooring.simulate.units import parse_span


def annotated_run_time(pod: Pod) -> float:
    """Seconds from the start of a pod to its end; inf without the annotation. Raises ValueError."""
    text = pod.metadata.annotations.get(RUN_TIME)
    return inf if text is None else parse_span(text)


def annotated_start_delay(pod: Pod) -> float:
    """Seconds from the binding of a pod to its start. Raises ValueError."""
    return parse_span(pod.metadata.annotations.get(START_DELAY, 0))
