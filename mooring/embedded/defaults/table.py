"""Which kind has which defaults."""

from __future__ import annotations

from collections.abc import Callable

from mooring.embedded.objects import Tree

DEFAULTS: dict[str, Callable[[Tree], None]] = {}
"""By the table that a kind lives in; functions change the tree in place."""
