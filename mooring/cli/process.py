"""Process-wide settings."""

from __future__ import annotations

import gc


def relax_collector() -> None:
    """Make the cyclic garbage collector run rarely.

    A scheduler holds hundreds of thousands of objects that live as long as their pods and form no cycles, so
    reference counting frees them. With the default thresholds the collector traverses all of them again and
    again, which costs about a tenth of the scheduling rate.
    """
    gc.set_threshold(100_000, 50, 100)
