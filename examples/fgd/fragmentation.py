"""A probe: how much of the cluster's GPUs the target workload cannot use, after each arrival."""


class Fragmentation:
    """Sums up the fragments of all nodes; only those of nodes that changed are computed."""

    def __init__(self):
        self._fragments, self._total, self._mark = None, 0.0, None

    def __call__(self, run):
        (profile,) = run.scheduler.profiles.values()
        plugin = next(each for each in profile.plugins.values() if hasattr(each, "fragment"))
        nodes = run.scheduler.cluster.nodes
        if self._fragments is None:
            self._fragments = [plugin.fragment(node) for node in nodes]
            self._total = sum(self._fragments)
        else:
            for row in set(nodes.changed_since(self._mark)[1]):
                fragment = plugin.fragment(nodes[row])
                self._total += fragment - self._fragments[row]
                self._fragments[row] = fragment
        self._mark = nodes.mark
        return {"fragment": self._total}
