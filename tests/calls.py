"""How much work something is, counted rather than timed."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_calls(run: Callable[[], object]) -> int:
    """How many functions `run` calls, Python's and C's."""
    calls = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    gc.collect()  # not in the middle: finalizers are calls, too
    gc.disable()
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls


def count_lines(run: Callable[[], object], file: str) -> int:
    """How many lines of a file `run` executes: loops whose bodies call nothing show only here."""
    lines = 0

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    def enter(frame: FrameType, event: str, arg: Any) -> Any:
        return count if frame.f_code.co_filename == file else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        run()
    finally:
        sys.settrace(before)
    return lines


def growth(run: Callable[[int], Callable[[], object]], size: int) -> float:
    """By what factor the work grows when the size doubles: 2 where it is linear, 4 where it is quadratic.

    `run(n)` prepares the work of size n and returns it.
    """
    run(2 * size)()  # what is imported and compiled on first use does not count
    return count_calls(run(2 * size)) / count_calls(run(size))
