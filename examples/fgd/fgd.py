"""Fragmentation gradient descent: place a pod where it makes the fragment of the node grow least."""

from math import exp

from gpu_share import GpuShare


class FGD(GpuShare):
    name = "FGD"

    def rate_all(self, states, cpu, milli):
        self.target.prepare(
            [*states, *(after for state in states for _, after in outcomes(state, cpu, milli))]
        )
        return super().rate_all(states, cpu, milli)

    def rate(self, state, cpu, milli):
        return max((self._gain(state, after) for _, after in outcomes(state, cpu, milli)), default=0)

    def choose(self, devices, cpu, milli):
        state = devices.state
        gains = {left: self._gain(state, after) for left, after in outcomes(state, cpu, milli)}
        return max(range(len(devices.left)), key=lambda device: gains.get(devices.left[device], -1))

    def _gain(self, before, after):
        shrinks = self.target.fragment(before) - self.target.fragment(after)
        return int(100 * (1 / (1 + exp(-shrinks / 1000))))


def outcomes(state, cpu, milli):
    """The states that a node may be in with the pod, each with what was left of the device that it shares."""
    free, left, model = state
    if not 0 < milli < 1000:
        taken = milli // 1000
        if taken <= left.count(1000):
            yield 0, (free - cpu, (0,) * taken + left[: len(left) - taken], model)
        return
    for amount in sorted(set(left)):
        if amount >= milli:
            others = list(left)
            others[others.index(amount)] -= milli
            yield amount, (free - cpu, tuple(sorted(others)), model)
