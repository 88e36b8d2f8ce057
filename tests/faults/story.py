"""What a person reads about a run that violates an invariant."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.runs import Result
from tests.faults.shape import Shape

LAST_LINES = 60


def story(result: Result, steps: int, lines: int = LAST_LINES) -> Iterator[str]:
    """Yield the lines of a story: the shape of the run, its faults, the end of its log, and what is wrong."""
    shape = Shape(result.seed)
    yield f"seed {result.seed}, {steps} steps: {shape.nodes} nodes, {shape.replicas} scheduler replicas, " + (
        f"latency up to {shape.slowest:g} s, {shape.window} changes kept for watches"
        + (", data directory" if shape.durable else "")
        + (f", {len(shape.extenders)} extenders" if shape.extenders else "")
    )
    yield f"faults ({len(result.faults)}):"
    yield from (f"  {fault}" for fault in result.fault_texts)
    yield f"the last {min(lines, len(result.log))} of {len(result.log)} lines:"
    yield from (f"  {line}" for line in result.log[-lines:])
    yield "violations:"
    yield from (f"  {violation}" for violation in result.violations)
