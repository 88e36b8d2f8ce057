"""Hooks of default plugins about their scores: by groups of nodes, by shape."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.framework.nodes import IntArray
from mooring.framework.plugin import Plugin


class Groups(NamedTuple):
    """The answer of score_groups: row r of the table has `scores[of[r]]`.

    Rows that are not feasible, and groups without rows, may have any score.
    """

    of: npt.NDArray[np.intp]
    raw: IntArray  # by group, before normalizing
    scores: IntArray  # by group, 0 to 100


def scores_groups(cls: type[Plugin]) -> bool:
    """Whether to call a plugin's score_groups(state, pod, nodes) -> Groups.

    It is score_nodes and normalize_score in one, for a plugin without a cache key that knows which nodes
    score alike. The plugin implements those two as well, with equal answers. A subclass that overrides one of
    them but not score_groups is not called through the inherited one.
    """
    return _speaks_for_scores(cls, "score_groups")


def scores_by_shape(cls: type[Plugin]) -> bool:
    """Whether to call a plugin's scores_shape(pod) -> bool: can pods of this shape get any score but 0?

    For a plugin without a cache key that has nothing to say of most pods. It is called once for a shape.
    """
    return _speaks_for_scores(cls, "scores_shape")


def has_key_for_shape(cls: type[Plugin]) -> bool:
    """Whether to call a plugin's score_cache_key(pod) -> CacheKey: what the scores of pods of this shape are
    cached by, for a plugin whose own cache key does not hold for all of them. It is called once for a shape.
    """
    return _speaks_for_scores(cls, "score_cache_key")


def _speaks_for_scores(cls: type[Plugin], hook: str) -> bool:
    """Whether no subclass overrides how scores are computed without overriding the hook, too."""
    return hasattr(cls, hook) and all(
        _depth(cls, hook) <= _depth(cls, method) for method in ("score", "score_nodes", "normalize_score")
    )


def _depth(cls: type[Plugin], method: str) -> int:
    """Return how far up the class tree a method is defined: 0 is the class itself."""
    return next(i for i, base in enumerate(cls.__mro__) if method in vars(base))
