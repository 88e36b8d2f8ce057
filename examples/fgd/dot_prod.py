"""Dot product: the less a node's free resources are aligned with the request, the higher its score."""

from gpu_share import GpuShare

MOST_CPU, MOST_MILLI = 128_000, 8_000  # of the largest node


class DotProd(GpuShare):
    name = "DotProd"

    def rate(self, state, cpu, milli):
        free, left, _ = state
        product = (free / MOST_CPU) * (cpu / MOST_CPU) + (sum(left) / MOST_MILLI) * (milli / MOST_MILLI)
        return int(100 * (1 - product / 2))
