"""Running a target: executions with bounds on time and memory, and what they found."""

from __future__ import annotations

import faulthandler
import gc
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple

from tests.fuzz.target import CORPUS, Target

HANG_SECONDS = 1.0
"""CPU time of one execution. Waiting for other processes does not count."""
MEMORY_LIMIT = 3 << 30
"""Bytes of address space; beyond, an allocation raises MemoryError."""
GROWTH_LIMIT = 150 << 20
"""Bytes that a process may grow between a fifth of its executions and the end."""
MOST_SEEDS = 400
_STUCK_SECONDS = 120


class HangError(Exception):
    """An execution took more than HANG_SECONDS of CPU time."""


class Finding(NamedTuple):
    """An input that failed, and how."""

    target: str
    data: bytes
    error: str
    story: str

    def save(self) -> str:
        folder = CORPUS / self.target
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / sha256(self.data).hexdigest()[:12]
        path.write_bytes(self.data)
        return str(path.relative_to(CORPUS.parent))


class Report(NamedTuple):
    executions: int
    seconds: float
    outcomes: int
    growth: int
    findings: list[Finding]


def fuzz(
    target: Target, executions: int, seed: int, progress: Callable[[int, int, int], None] = lambda *_: None
) -> Report:
    """Run a target on inputs made from its seeds. One finding is kept per place where it fails."""
    random = Random(f"{seed} {target.name}")
    seeds = [*target.seeds, *(path.read_bytes() for path in target.kept_cases())]
    fixed, longest = len(seeds), max(200, 2 * max(map(len, target.seeds)))
    outcomes: set[str] = set()
    findings: dict[str, Finding] = {}
    began, early = time.monotonic(), 0
    with _bounds():
        for number in range(executions):
            data = seeds[number] if number < fixed else _make(target, random, seeds)
            outcome = _execute(target, data, findings)
            if outcome is not None and outcome not in outcomes and len(outcomes) < 20_000:
                outcomes.add(outcome)
                if len(data) > longest:
                    pass
                elif len(seeds) < MOST_SEEDS:
                    seeds.append(data)
                elif fixed < MOST_SEEDS:
                    seeds[random.randrange(fixed, MOST_SEEDS)] = data
            if number == executions // 5:
                early = _resident()
            if number % 200 == 0:
                faulthandler.dump_traceback_later(_STUCK_SECONDS, exit=True)
                progress(number, len(outcomes), len(findings))
    growth = _resident() - early
    if growth > GROWTH_LIMIT:
        error = f"grew by {growth >> 20} MiB"
        findings[error] = Finding(target.name, b"", error, error)
    return Report(executions, time.monotonic() - began, len(outcomes), growth, list(findings.values()))


def replay(target: Target, data: bytes) -> None:
    """Read one input; raise what it must not raise."""
    with _bounds():
        _within_time(target, data)


def _make(target: Target, random: Random, seeds: list[bytes]) -> bytes:
    data = random.choice(seeds)
    for _ in range(random.choice((1, 1, 1, 2))):
        data = target.mutate(random, data, target.words)
    return data


def _execute(target: Target, data: bytes, findings: dict[str, Finding]) -> str | None:
    try:
        return _within_time(target, data)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        place = _place(error)
        known = findings.get(place)
        if known is None or len(data) < len(known.data):
            story = "".join(traceback.format_exception(error, limit=-12))
            findings[place] = Finding(target.name, data, f"{type(error).__name__}: {str(error)[:200]}", story)
        return None


def _within_time(target: Target, data: bytes) -> str:
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG_SECONDS)
    try:
        return target.outcome(data)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _place(error: BaseException) -> str:
    """Where in the package an error was raised: one bug gives many inputs."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/mooring/" in frame.filename]
    where = f"{frames[-1].filename}:{frames[-1].name}" if frames else str(error)[:60]
    return f"{type(error).__name__} {where}"


@contextmanager
def _bounds() -> Iterator[None]:
    def interrupt(*_: Any) -> None:
        raise HangError(f"more than {HANG_SECONDS:g} s of CPU time")

    before = signal.signal(signal.SIGVTALRM, interrupt)
    memory = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, memory[1]))
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        resource.setrlimit(resource.RLIMIT_AS, memory)
        signal.signal(signal.SIGVTALRM, before)


def _resident() -> int:
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
