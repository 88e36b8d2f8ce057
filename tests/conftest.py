"""Settings for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# A usual run tries the same examples every time, so that it fails for what changed and not by chance;
# HYPOTHESIS_PROFILE=thorough or =long looks for new ones.
settings.register_profile("usual", derandomize=True)
if not os.environ.get("HYPOTHESIS_PROFILE"):
    settings.load_profile("usual")

# Many tests start commands of their own: compiling Mooring once is enough for all of them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
