from mooring.framework import Action, Args, CacheKey, Hint, Plugin, Resource, requeue_on, unschedulable


class LimitPerNodeArgs(Args):
    label: str = "app"
    most: int = 1


class LimitPerNode(Plugin[LimitPerNodeArgs]):
    """Allow at most so many pods with the same value of a label on a node."""

    name = "LimitPerNode"
    cache_key = CacheKey.NODE_AND_PODS

    def filter(self, state, pod, node):
        if self.args.label not in pod.labels:
            return None
        if sum(self._is_mate(pod, other) for other in node.pods) >= self.args.most:
            return unschedulable(f"node(s) had {self.args.most} pods with the same {self.args.label}")
        return None

    def events_to_register(self):
        yield requeue_on(Resource.NODE, Action.ADD)
        yield requeue_on(Resource.POD, Action.DELETE | Action.UPDATE_POD_LABEL, self._may_help)

    def _may_help(self, pod, old, new):
        return Hint.QUEUE if self._is_mate(pod, old) else Hint.SKIP

    def _is_mate(self, pod, other):
        same = pod.labels.get(self.args.label) == other.labels.get(self.args.label)
        return same and pod.namespace == other.namespace
