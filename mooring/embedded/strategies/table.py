"""Which kind has which strategy."""

from __future__ import annotations

from mooring.embedded.defaults.table import DEFAULTS
from mooring.embedded.kinds.strategy import Strategy
from mooring.embedded.kinds.traits import traits_of
from mooring.embedded.strategies.cluster import EventStrategy, NamespaceStrategy, NodeStrategy
from mooring.embedded.strategies.pods import PodStrategy
from mooring.embedded.validation.table import RULES

STRATEGIES: dict[str, type[Strategy]] = {
    "events": EventStrategy,
    "namespaces": NamespaceStrategy,
    "nodes": NodeStrategy,
    "pods": PodStrategy,
}


def strategy_of(storage: str, *, status: bool) -> Strategy:
    """The strategy of a built-in kind, by the table it lives in."""
    strategy = STRATEGIES.get(storage, Strategy)
    return strategy(traits_of(storage, status=status), DEFAULTS.get(storage), RULES.get(storage))
