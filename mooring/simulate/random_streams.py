"""Seeded random numbers, one stream per source: adding a source does not change what the others draw, and
every policy sees the same arrivals (common random numbers)."""

from __future__ import annotations

from hashlib import sha256

import numpy as np


def stream(seed: int, name: str) -> np.random.Generator:
    """The stream of that name under a seed."""
    digest = sha256(name.encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *words])))
