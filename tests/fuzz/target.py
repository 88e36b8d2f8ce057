"""What is fuzzed: one function per kind of input, in one table."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.mutation import Mutate

CORPUS = Path(__file__).parent / "corpus"
"""Inputs that once failed, by target. They are seeds, and `test_fuzz.py` replays them."""

Run = Callable[[bytes], object]
_QUOTED = re.compile(r"/\S+|\"(?:[^\"\\]|\\.)*\"|'[^']*'|`[^`]*`", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]{2,20}")


class Target(NamedTuple):
    """A function that reads one input. It may raise `errors`; anything else that it raises is a bug.

    What it returns, or the error, is its outcome. An input with a new outcome becomes a seed.
    """

    name: str
    run: Run
    mutate: Mutate
    seeds: Sequence[bytes]
    words: Sequence[bytes]
    errors: tuple[type[Exception], ...]

    def outcome(self, data: bytes) -> str:
        """Read one input and return a short description of the result."""
        try:
            result = self.run(data)
        except self.errors as error:
            return f"{type(error).__name__}: {_gist(str(error))}"
        return _gist("; ".join(map(str, result)) if isinstance(result, list) else str(result))

    def kept_cases(self) -> list[Path]:
        return sorted(path for path in (CORPUS / self.name).glob("*") if path.is_file())


def _gist(text: str) -> str:
    """Return the first words of a text, without what it quotes."""
    return " ".join(_WORD.findall(_QUOTED.sub("", text[:1000]))[:5])


@contextmanager
def untimed() -> Iterator[None]:
    """Run what a target prepares, without counting its CPU time."""
    left, _ = signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, left)


TARGETS: dict[str, Target] = {}


def target(
    name: str,
    mutate: Mutate,
    seeds: Sequence[str | bytes],
    words: Sequence[str] = (),
    errors: tuple[type[Exception], ...] = (),
) -> Callable[[Run], Run]:
    """Register a function as a target."""

    def register(run: Run) -> Run:
        found = [seed.encode() if isinstance(seed, str) else seed for seed in seeds]
        TARGETS[name] = Target(name, run, mutate, found, [word.encode() for word in words], errors)
        return run

    return register
