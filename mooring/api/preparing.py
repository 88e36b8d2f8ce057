"""Types that several threads read objects into."""

from __future__ import annotations

from typing import Any

import msgspec


def prepare(*types: Any) -> None:
    """Have msgspec examine types now, at import. It does so when a type is first used, and the process
    crashes if another thread uses the type meanwhile."""
    for each in types:
        msgspec.json.Decoder(each)
