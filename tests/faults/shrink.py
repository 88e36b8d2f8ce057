"""The smallest list of faults with which a seed still fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Fails = Callable[[list[int]], bool]


def shrink(faults: Sequence[int], fails: Fails, tries: int = 200) -> list[int]:
    """Leave out faults as long as the run fails without them: halves first, then ever smaller parts. Stops
    after so many tries, with the smallest list found by then."""
    kept, size = list(faults), len(faults)
    if fails([]):
        return []
    while size > 0 and tries > 0:
        for start in range(0, len(kept), size):
            without = kept[:start] + kept[start + size :]
            tries -= 1
            if len(without) < len(kept) and fails(without):
                kept = without
                break
            if not tries:
                break
        else:
            size //= 2
            continue
        size = min(size, len(kept))
    return kept
