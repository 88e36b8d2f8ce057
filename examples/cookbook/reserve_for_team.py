from mooring.framework import Args, CacheKey, Plugin, unresolvable


class ReserveForTeamArgs(Args):
    label: str = "team"


class ReserveForTeam(Plugin[ReserveForTeamArgs]):
    """Keep nodes labelled `team=x` for pods labelled `team=x`, which prefer these nodes to others."""

    name = "ReserveForTeam"
    cache_key = CacheKey.NODE

    def filter(self, state, pod, node):
        team = node.labels.get(self.args.label)
        if team and pod.labels.get(self.args.label) != team:
            return unresolvable("node(s) were reserved for another team")
        return None

    def score(self, state, pod, node):
        return 100 if node.labels.get(self.args.label) else 0  # of those that pass the filter
