"""Settings of the process that a scheduler runs in."""

from __future__ import annotations

import gc


def relax_collector() -> None:
    """Let the cyclic garbage collector run seldom.

    A scheduler keeps hundreds of thousands of objects that live as long as their pods, and makes no cycles:
    reference counting frees what it drops. With the default thresholds the collector would walk over all of
    them again and again, which costs about a tenth of the scheduling rate.
    """
    gc.set_threshold(100_000, 50, 100)
