"""How a pod behaves: its annotations say when it starts, how long it runs and how it ends.

    mooring/start-delay: 5s     from being accepted by the node to running
    mooring/run-time: 30s       from running to the end of its containers
    mooring/exit-code: "1"      with which they end
    mooring/stop-time: 10s      from the stop signal to the end, unless its grace period is over before

Without a run time and an exit code, containers do what their commands say (`mooring.sandbox.programs`). Where
that is not known, they run until they are deleted; those of Jobs, of pods without a controller that are not
always restarted, and those that have an exit code and no run time, for one second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from mooring.api.objects import Pod
from mooring.plugins.args import Duration

START_DELAY = "mooring/start-delay"
RUN_TIME = "mooring/run-time"
EXIT_CODE = "mooring/exit-code"
STOP_TIME = "mooring/stop-time"

SHORT = 1.0  # seconds

T = TypeVar("T")


class Script(NamedTuple):
    """Times are seconds; `run_time` is None where the containers do not end by themselves. If `annotated`, it
    takes precedence over the commands of the containers."""

    start_delay: float = 0.0
    run_time: float | None = None
    exit_code: int = 0
    stop_time: float = 0.0
    annotated: bool = False


_FOREVER = Script()
_TASK = Script(run_time=SHORT)


def read_script(pod: Pod) -> tuple[Script, list[str]]:
    """The script of a pod, and what is wrong with the annotations that had to be ignored."""
    usual = _TASK if pod.spec.restart_policy != "Always" and _is_task(pod) else _FOREVER
    annotations = pod.metadata.annotations
    if not annotations:
        return usual, []
    problems: list[str] = []

    def read(name: str, parse: Callable[[str], T], usually: T, expected: str) -> T:
        text = annotations.get(name)
        if text is None:
            return usually
        try:
            return parse(text)
        except ValueError:
            shown = text if len(text) <= 80 else text[:79] + "…"
            problems.append(f'annotation {name} is ignored: found "{shown}", expected {expected}')
            return usually

    span = "a duration such as 5s, 1m30s or 250ms"
    start_delay = read(START_DELAY, _seconds, usual.start_delay, span)
    exit_code = read(EXIT_CODE, _exit_code, None, "a number from 0 to 255")
    run_time: float | None = read(RUN_TIME, _seconds, None, span)
    annotated = run_time is not None or exit_code is not None
    if run_time is None:
        run_time = SHORT if exit_code is not None else usual.run_time
    stop_time = read(STOP_TIME, _seconds, usual.stop_time, span)
    return Script(start_delay, run_time, exit_code or 0, stop_time, annotated), problems


def _is_task(pod: Pod) -> bool:
    """Whether a pod is likely to end: that of a Job, or of no controller."""
    owner = pod.metadata.controller()
    return owner is None or owner.kind == "Job"


def _seconds(text: str) -> float:
    seconds = Duration.parse(text).seconds
    if seconds < 0:
        raise ValueError("negative")
    return seconds


def _exit_code(text: str) -> int | None:
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= 255):
        raise ValueError("not an exit code")
    return int(text)
