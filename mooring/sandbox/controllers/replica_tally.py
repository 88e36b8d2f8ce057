"""How many pods a set has and how they are, counted as they change: a set may have ten thousand."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.api.objects import Pod
from mooring.api.selectors import Selector
from mooring.api.workloads import Replicas

_Seen = tuple[bool, bool, bool, str | None, bool]
"""All that counts about a pod: is it selected, active, fully labeled, since when ready, leaving?"""


class Tally:
    """The pods that one set controls, as it is in one generation."""

    def __init__(self, owner: Replicas, selector: Selector, pods: Iterable[Pod]) -> None:
        self.owner = owner.key
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
        self._add(self._seen(pod), sign)

    def replace(self, old: Pod, new: Pod) -> bool:
        """Count a pod as it is now instead of as it was; whether there is anything new about it."""
        before, after = self._seen(old), self._seen(new)
        if before == after:
            return False
        self._add(before, -1)
        self._add(after, 1)
        return True

    def _seen(self, pod: Pod) -> _Seen:
        labels, active = pod.metadata.labels, pod.active
        selected = self._selector.matches(labels)
        if not active:
            leaving = selected and pod.metadata.deletion_timestamp is not None and not pod.finished
            return selected, False, False, None, leaving
        return selected, True, self._labels <= labels.items(), pod.ready_since, False

    def _add(self, seen: _Seen, sign: int) -> None:
        selected, active, labeled, ready_since, leaving = seen
        if not selected:
            self.strays += sign * active
        elif active:
            self.active += sign
            self.labeled += sign * labeled
            self.ready += sign * (ready_since is not None)
        else:
            self.leaving += sign * leaving
