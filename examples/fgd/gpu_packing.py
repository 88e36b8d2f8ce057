"""GPU packing: first devices in use, then nodes in use, then idle nodes with few devices."""

from gpu_share import GpuShare


class GpuPacking(GpuShare):
    name = "GpuPacking"

    def rate(self, state, cpu, milli):
        if not milli:
            return 0
        left = state[1]
        idle = left.count(1000)
        if idle == len(left):
            return max(33 - idle, idle)
        each = min(milli, 1000)
        chosen = [amount for amount in left if amount >= each][: max(milli // 1000, 1)]
        newly_used = chosen.count(1000)
        if newly_used:
            return max(50 - newly_used, 33)
        return max(100 - sum(amount * 100 // 1000 for amount in chosen) // 10, 50)
