"""The age at which versions expire for lists that continue, as kube-apiserver has etcd compacted."""

from __future__ import annotations

from collections import deque
from typing import Final

INTERVAL: Final = 300.0  # seconds
_STEP: Final = 10.0  # seconds from one mark to the next


class Compaction:
    """Remembers which versions were current at which times."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()
        self._compacted = 0

    def advance(self, now: float, version: int) -> int:
        """Take note of the current version, and return the oldest that has not expired."""
        if not self._marks or now - self._marks[-1][0] >= _STEP:
            self._marks.append((now, version))
        while self._marks[0][0] <= now - INTERVAL:
            self._compacted = self._marks.popleft()[1]
            if not self._marks:
                self._marks.append((now, version))
        return self._compacted
