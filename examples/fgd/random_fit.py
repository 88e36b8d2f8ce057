"""Random: any node that fits, any device that suffices."""

import numpy as np
from gpu_share import GpuShare

from mooring.framework import CacheKey, StateKey

CHOSEN = StateKey[int]("row of the chosen node")


class RandomFit(GpuShare):
    name = "RandomFit"
    cache_key = CacheKey.NONE

    def pre_score(self, state, pod, nodes):
        state.write(CHOSEN, int(nodes.rows[self.handle.random_below(len(nodes))]))

    def score_nodes(self, state, pod, nodes):
        return np.where(nodes.rows == state.read(CHOSEN), 100, 0)

    def choose(self, devices, cpu, milli):
        fitting = [device for device, left in enumerate(devices.left) if left >= milli]
        return fitting[self.handle.random_below(len(fitting))]
