"""Gangs in the history: how many of their pods are bound, and whether the others could be."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from tests.faults.history import Entry
from tests.faults.pods import Pod

if TYPE_CHECKING:
    from tests.faults.checker import Checker

Tree = dict[str, Any]

FEATURES = ("GenericWorkload", "GangScheduling")
TABLE = "podgroups.scheduling.k8s.io"


def group_of(pod: Pod) -> str:
    """The key of a pod's group, or ""."""
    name = (pod.spec.get("schedulingGroup") or {}).get("podGroupName")
    return f"{pod.key.split('/')[0]}/{name}" if name else ""


class Gangs:
    """PodGroups by key, and those that lost a pod after it was bound, or while it was being bound, and have
    not been whole since."""

    def __init__(self) -> None:
        self._groups: dict[str, Tree] = {}
        self._lost: set[str] = set()
        self._deleted: dict[str, str] = {}  # groups of the pods that were deleted while pending, by uid

    def changed(self, entry: Entry, tree: Tree | None) -> None:
        if tree is None:
            self._groups.pop(entry.key, None)
            self._lost.discard(entry.key)
        else:
            self._groups[entry.key] = tree

    def left(self, pod: Pod) -> None:
        """A bound pod was deleted, or has ended."""
        self._lost.add(group_of(pod))

    def deleted(self, pod: Pod) -> None:
        """A pending pod was deleted."""
        if key := group_of(pod):
            self._deleted[pod.uid] = key

    def binds(self, uid: str) -> None:
        """A binding arrives at the server; if its pod is gone, the others of its gang were chosen with it."""
        if key := self._deleted.get(uid):
            self._lost.add(key)

    def minimums(self) -> dict[str, int]:
        """How many pods of each gang start together."""
        return {key: minimum for key in self._groups if (minimum := self.minimum(key))}

    def minimum(self, key: str) -> int:
        tree = self._groups.get(key)
        if tree is None or "deletionTimestamp" in tree["metadata"]:
            return 0
        policy: Tree = tree["spec"]["schedulingPolicy"]
        return int((policy.get("gang") or {}).get("minCount", 0))

    def pods(self, checker: Checker, key: str) -> list[Pod]:
        pods = checker.pods.values()
        return [pod for pod in pods if group_of(pod) == key and not (pod.finished or pod.terminating)]

    def broken(self, checker: Checker, repaired: Container[str], *, lack_pods: bool) -> list[str]:
        """What is wrong with gangs while nothing happens: they run in part, although none of their pods left
        or the scheduler does not have them among those that are `repaired` first. Those that `lack_pods`,
        since some were deleted while they were bound, count in the end only."""
        problems = []
        leaving = {group_of(pod) for pod in checker.pods.values() if pod.terminating}
        for key in self._groups:
            pods = self.pods(checker, key)
            bound = sum(bool(pod.node) for pod in pods)
            if not 0 < bound < self.minimum(key):
                if key not in leaving:  # pods that terminate count for those that replace them
                    self._lost.discard(key)
                continue
            if len(pods) < self.minimum(key) and not lack_pods:
                continue
            text = f"{bound} of at least {self.minimum(key)} pods of gang {key} are bound"
            if key not in self._lost:
                problems.append(text)
            elif key not in repaired and key not in leaving:
                problems.append(f"{text}, and it is not repaired first")
        return problems

    def is_waiting(self, checker: Checker, pod: Pod) -> bool:
        """Whether a pod waits for others of its gang rather than for a node of its own."""
        key = group_of(pod)
        if not key:
            return False
        minimum = self.minimum(key)
        if not minimum:
            return True  # its group is gone
        return minimum > 1 and sum(bool(other.node) for other in self.pods(checker, key)) < minimum
