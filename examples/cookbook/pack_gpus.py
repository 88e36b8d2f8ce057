from mooring.framework import Args, CacheKey, Plugin


class PackGpusArgs(Args):
    resource: str = "nvidia.com/gpu"


class PackGpus(Plugin[PackGpusArgs]):
    """Fill GPU nodes up before opening new ones, and keep pods without GPUs away from them."""

    name = "PackGpus"
    cache_key = CacheKey.NODE_AND_PODS

    def score(self, state, pod, node):
        total, free = node.allocatable[self.args.resource], node.free[self.args.resource]
        if not pod.requests[self.args.resource]:
            return 0 if total else 100
        return (total - free) * 100 // total if total else 0
