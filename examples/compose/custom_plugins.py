"""Plugins to compose: two scorers by a label, and one whose scores need normalising."""

import numpy as np

from mooring.framework import CacheKey, Plugin

MAX_SCORE = 100


class MyCustomPluginA(Plugin):
    """Prefers nodes with the label `a`."""

    name = "MyCustomPluginA"
    cache_key = CacheKey.NODE

    def score(self, state, pod, node):
        return MAX_SCORE if "a" in node.labels else 0


class MyCustomPluginB(Plugin):
    """Prefers nodes with the label `b`."""

    name = "MyCustomPluginB"
    cache_key = CacheKey.NODE

    def score(self, state, pod, node):
        return MAX_SCORE if "b" in node.labels else 0


class BlinkingLightScorer(Plugin):
    """Ranks nodes by the number of their blinking lights, in the label `blinking-lights`."""

    name = "BlinkingLightScorer"
    cache_key = CacheKey.NODE

    def score(self, state, pod, node):
        lights = node.labels.get("blinking-lights", "0")
        return int(lights) if lights.isdecimal() else 0

    def normalize_score(self, state, pod, scores, nodes):
        """However many lights the best node has, it is worth 100."""
        highest = max(int(scores.max(initial=0)), 1)
        return np.asarray(scores) * MAX_SCORE // highest
