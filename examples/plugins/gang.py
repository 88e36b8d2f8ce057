from mooring.framework import Args, Plugin, wait


class GangArgs(Args):
    timeout_seconds: float = 60


class Gang(Plugin[GangArgs]):
    """Pods with the same label `gang` start together, or not at all; `gang-size` says how many they are."""

    name = "Gang"

    def permit(self, state, pod, node_name):
        gang, size = pod.labels.get("gang"), int(pod.labels.get("gang-size", "1"))
        placed = sum(self._is_mate(other, pod) for other in self.handle.snapshot.pods())
        if gang is None or placed >= size:
            for mate in self._waiting(pod):
                mate.allow(self.name)
            return None
        return wait(self.args.timeout_seconds, f"{size - placed} more pods of the gang to come")

    def unreserve(self, state, pod, node_name):
        for mate in self._waiting(pod):  # one cannot start, so the others need not wait
            mate.reject(self.name, f"pod {pod.key} of the gang could not start")

    def _waiting(self, pod):
        return [mate for mate in self.handle.waiting_pods() if self._is_mate(mate.pod, pod)]

    def _is_mate(self, other, pod):
        gang = pod.labels.get("gang")
        return gang is not None and other.namespace == pod.namespace and other.labels.get("gang") == gang
