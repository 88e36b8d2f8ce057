"""Runs of seeds, and their results."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, NamedTuple

from mooring.client.virtual_time import VirtualTimeLoop
from tests.faults.checker import Violation
from tests.faults.hasty import HastyLoop
from tests.faults.processes import task_factory
from tests.faults.world import World


class Result(NamedTuple):
    """How a run of a seed ended."""

    seed: int
    violations: list[Violation]
    requests: int
    bound: int
    virtual_seconds: float
    seconds: float
    faults: list[int]
    """The numbers of the faults that happened."""
    fault_texts: list[str]
    digest: str
    log: list[str]
    quiet_points: int = 0  # at which gangs were checked


def run_seed(
    seed: int,
    steps: int,
    faults: list[int] | None = None,
    *,
    story: bool = False,
    gangs: bool = False,
    threads: bool = False,
) -> Result:
    """Run a seed in a loop of its own; `faults` are the numbers of those to keep, by default all. With
    `gangs`, users also create gangs. With `threads`, time is real, and a seed is not the same every time."""
    loop = HastyLoop() if threads else VirtualTimeLoop()
    loop.set_task_factory(task_factory)
    began, start = time.process_time(), loop.time()
    logging.disable(logging.CRITICAL)
    try:
        return loop.run_until_complete(_run(loop, seed, steps, faults, story, gangs, start, began))
    finally:
        logging.disable(logging.NOTSET)
        loop.close()


async def _run(
    loop: asyncio.AbstractEventLoop,
    seed: int,
    steps: int,
    faults: list[int] | None,
    story: bool,
    gangs: bool,
    start: float,
    began: float,
) -> Result:
    world = World(seed, steps, faults, gangs=gangs)
    loop.set_exception_handler(lambda _, context: _unexpected(world, context))
    if story:
        world.history.log = []
    await world.run()
    return Result(
        seed,
        world.checker.violations,
        world.history.requests,
        world.checker.bound,
        loop.time() - start,
        time.process_time() - began,
        [fault.number for fault in world.begun],
        [str(fault) for fault in world.begun],
        world.history.digest,
        world.history.log or [],
        world.quiet_points,
    )


def _unexpected(world: World, context: dict[str, Any]) -> None:
    """An exception in a callback; answers to killed clients are of no interest."""
    if "never retrieved" not in context["message"]:
        world.checker.violate("no bugs", f"{context['message']}: {context.get('exception')!r}")
