"""Settings for all tests."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# A usual run tries the same examples every time, so that it fails for what changed and not by chance;
# HYPOTHESIS_PROFILE=thorough or =long looks for new ones. "repeated" is for the same tests on another Python,
# where fewer of these examples show as much.
# A slow machine is no failure.
settings.register_profile(
    "usual", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("repeated", settings.get_profile("usual"), max_examples=30)
_profile = os.environ.get("HYPOTHESIS_PROFILE") or "usual"
if _profile in ("usual", "repeated"):
    settings.load_profile(_profile)

# Many tests start commands of their own: compiling Mooring once is enough for all of them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    """Undo what a command that configures logging leaves behind."""
    loggers = (logging.getLogger(), logging.getLogger("mooring"))
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers
