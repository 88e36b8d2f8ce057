"""The GPU devices of one node."""

MILLI = "alibabacloud.com/gpu-milli"
MODEL = "alibabacloud.com/gpu-card-model"


class Devices:
    """What is left of a node's devices and CPU, and which devices each pod has."""

    __slots__ = ("cpu", "left", "model", "pods", "state")

    def __init__(self, node):
        self.pods = {}  # uid → (cpu, requested gpu-milli, devices)
        self.cpu = node.allocatable["cpu"]
        self.left = [1000] * (node.allocatable[MILLI] // 1000)
        self.model = node.labels.get(MODEL, "")
        self._changed()

    def take(self, uid, cpu, milli, devices):
        self.pods[uid] = (cpu, milli, devices)
        self._use(cpu, milli, devices, -1)

    def give_back(self, uid):
        self._use(*self.pods.pop(uid), 1)

    def _use(self, cpu, milli, devices, sign):
        self.cpu += sign * cpu
        for device in devices:
            self.left[device] += sign * min(milli, 1000)
        self._changed()

    def _changed(self):
        """Nodes of equal state are equally good for every pod, but for the kinds of pods on them."""
        self.state = (self.cpu, tuple(sorted(self.left)), self.model)


def fits(left, milli):
    """Whether devices suffice for a pod."""
    if milli < 1000:
        return bool(left) and left[-1] >= milli
    return left.count(1000) >= milli // 1000
