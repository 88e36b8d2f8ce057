import numpy as np

from mooring.framework import Args, CacheKey, Plugin


class CheapNodesArgs(Args):
    label: str = "example.com/cents-per-hour"


class CheapNodes(Plugin[CheapNodesArgs]):
    """Prefer nodes with a low price. Nodes without the label count as the most expensive."""

    name = "CheapNodes"
    cache_key = CacheKey.NODE

    def score(self, state, pod, node):
        cents = node.labels.get(self.args.label, "")
        return int(cents) if cents.isdecimal() else -1

    def normalize_score(self, state, pod, scores, nodes):
        highest = max(scores.max(), 0)
        prices = np.where(scores < 0, highest, scores)
        return (highest - prices) * 100 // max(highest, 1)
