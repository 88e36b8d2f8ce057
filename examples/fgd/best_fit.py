"""Best fit: the node with the least CPU and GPU left over."""

import numpy as np
from gpu_share import GpuShare

MOST_CPU, MOST_MILLI = 128_000, 8_000  # of the largest node


class BestFit(GpuShare):
    name = "BestFit"

    def rate(self, state, cpu, milli):
        free, left, _ = state
        cpu_left = (free - cpu) / MOST_CPU * 0.5
        gpu_left = (sum(left) - milli) / MOST_MILLI * 0.5
        return int((1 - (cpu_left + gpu_left)) * 100)

    def normalize_score(self, state, pod, scores, nodes):
        low, high = scores.min(), scores.max()
        return np.zeros_like(scores) if low == high else (scores - low) * 100 // (high - low)
