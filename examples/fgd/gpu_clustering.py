"""GPU clustering: pods of one kind (sharing a device, or with as many devices) together."""

from gpu_share import GpuShare

MOST_MILLI = 8_000  # of the largest node


class GpuClustering(GpuShare):
    name = "GpuClustering"

    def state_of(self, devices):
        kinds = frozenset(kind(milli) for _, milli, _ in devices.pods.values() if milli)
        return (*devices.state, kinds)

    def rate(self, state, cpu, milli):
        if not milli:
            return 0
        left, kinds = state[1], state[3]
        used = 25 * (MOST_MILLI - sum(left)) // MOST_MILLI
        if not kinds:
            return used + 25
        if kind(milli) not in kinds:
            return used
        return used + (75 if len(kinds) == 1 else 50)


def kind(milli):
    return milli // 1000  # 0: shares a device
