"""File name patterns of a shell."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from typing import Final

from mooring.sandbox.programs.work import Work

_PER_CHARACTER: Final = 6  # units of work to compile a pattern; most of all in brackets
_PER_STAR: Final = 40
_PER_MATCH: Final = 8


def compile_pattern(pattern: str, work: Work) -> Callable[[str], bool]:
    """Return a function that decides whether a text matches a pattern. Raises ForeverError."""
    work.spend(_PER_CHARACTER * len(pattern) + _PER_STAR * pattern.count("*"))
    match = re.compile(translate(pattern)).match  # the cache of fnmatch keeps thousands of patterns

    def matches(text: str) -> bool:
        work.spend(_PER_MATCH + len(text) // 8)
        return match(text) is not None

    return matches
