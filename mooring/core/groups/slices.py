"""Long plans in slices: generators that pause where the scheduling loop may do something else."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Sliced = Generator[None, None, Result]
"""Work that pauses at each yield."""

STEPS = 1000  # between two pauses, of work that takes some ten microseconds


def finish(work: Sliced[Result]) -> Result:
    """Do all of the work at once."""
    try:
        while True:
            next(work)
    except StopIteration as done:
        result: Result = done.value
        return result


def guarded(work: Sliced[Result], pause: Callable[[], None], resume: Callable[[], None]) -> Sliced[Result]:
    """Call `pause` and `resume` around every pause of the work."""
    try:
        while True:
            next(work)
            pause()
            yield
            resume()
    except StopIteration as done:
        result: Result = done.value
        return result


def paced(items: Iterable[Item]) -> Iterator[tuple[Item, bool]]:
    """The items, and whether a pause is due after each."""
    for count, item in enumerate(items, 1):
        yield item, count % STEPS == 0
