import gpu_pack
import numpy as np

from mooring.framework import refuse, unschedulable


class GpuPack(gpu_pack.GpuPack):
    TOO_FEW = unschedulable("node(s) had too few free GPUs")

    def filter_nodes(self, state, pod, nodes):
        requested = pod.requests[self.args.resource]
        if not requested:
            return None  # all pass
        return refuse(nodes.free[self.args.resource] < requested + self.args.reserve, self.TOO_FEW)

    def score_nodes(self, state, pod, nodes):
        if not pod.requests[self.args.resource]:
            return np.zeros(len(nodes), np.int64)
        total, free = nodes.allocatable[self.args.resource], nodes.free[self.args.resource]
        return np.where(total > 0, (total - free) * 100 // np.maximum(total, 1), 0)
