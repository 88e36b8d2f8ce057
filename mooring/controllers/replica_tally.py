"""How many pods a set has and how they are, counted as they change: a set may have ten thousand."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.api.running import Pod
from mooring.api.selectors import Selector
from mooring.controllers.replicas import Replicas


class Tally:
    """The pods that one set controls, as it is in one generation."""

    def __init__(self, owner: Replicas, selector: Selector, pods: Iterable[Pod]) -> None:
        self.generation = owner.metadata.generation
        self._selector = selector
        self._labels = ((owner.spec.template.get("metadata") or {}).get("labels") or {}).items()
        self.active = 0
        self.labeled = 0
        """Of the active ones: those that have all labels of the template; and those that are ready."""
        self.ready = 0
        self.leaving = 0
        self.strays = 0
        """Active ones that the set does not select: they are to be released."""
        for pod in pods:
            self.count(pod, 1)

    def count(self, pod: Pod, sign: int) -> None:
        """Add a pod, or take it out."""
        labels, active = pod.metadata.labels, pod.active
        if not self._selector.matches(labels):
            self.strays += sign * active
        elif active:
            self.active += sign
            self.labeled += sign * (self._labels <= labels.items())
            self.ready += sign * pod.ready
        else:
            self.leaving += sign * is_leaving(pod)


def is_leaving(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None and not pod.terminal
