from mooring.framework import Action, Args, CacheKey, Hint, Plugin, Resource, requeue_on, unschedulable


class GpuPackArgs(Args):
    resource: str = "nvidia.com/gpu"
    reserve: int = 0  # how many to keep free on every node


class GpuPack(Plugin[GpuPackArgs]):
    """Fill GPU nodes up before opening new ones."""

    name = "GpuPack"
    cache_key = CacheKey.NODE_AND_PODS

    def filter(self, state, pod, node):
        requested = pod.requests[self.args.resource]
        if requested and node.free[self.args.resource] < requested + self.args.reserve:
            return unschedulable("node(s) had too few free GPUs")
        return None

    def score(self, state, pod, node):
        total = node.allocatable[self.args.resource]
        if not total or not pod.requests[self.args.resource]:
            return 0
        return (total - node.free[self.args.resource]) * 100 // total

    def events_to_register(self):
        yield requeue_on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        yield requeue_on(Resource.POD, Action.DELETE, self._after_deletion)

    def _after_deletion(self, pod, old, new):
        return Hint.QUEUE if old.requests[self.args.resource] else Hint.SKIP
