"""Bounds on what clients of the API may take up."""

from __future__ import annotations

from msgspec.structs import replace

from mooring.serving.limits import Limits

MOST_CONNECTIONS = 20_000
LIMITS = Limits(
    head_bytes=64 * 1024,
    head_seconds=60.0,
    answer_seconds=None,  # watches last
    send_seconds=30.0,
    idle_seconds=120,  # longer than clients keep idle connections, so that they are the ones to close them
    grace_seconds=0.5,
)


def api_limits() -> Limits:
    """Return the limits, with as many connections as the process may open, except for files of others."""
    try:
        import resource
    except ImportError:  # a system without such a limit
        return replace(LIMITS, connections=MOST_CONNECTIONS)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return replace(LIMITS, connections=MOST_CONNECTIONS)
    return replace(LIMITS, connections=min(MOST_CONNECTIONS, files - files // 8))
