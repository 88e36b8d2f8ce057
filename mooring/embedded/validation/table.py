"""Which kind has which rules, besides those of names and metadata."""

from __future__ import annotations

from mooring.embedded.kinds.strategy import Rules

RULES: dict[str, Rules] = {}
"""By the table that a kind lives in."""
