"""Quotas: what the API server admits is charged, and what the controller counts is right in the end.

In between a controller whose watches are behind may count too little, as in Kubernetes: it reads quotas and
the objects that use them by different watches.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.history import Entry
from tests.faults.pods import Pod, Tree, amount


class Quotas:
    """The quotas of the history, one a namespace, and how much the last write of each charged."""

    def __init__(self) -> None:
        self._quotas: dict[str, Tree] = {}
        self._last: dict[str, tuple[str, float]] = {}  # client, pods charged

    def changed(self, entry: Entry, tree: Tree | None) -> None:
        namespace = entry.key.split("/")[0]
        before = self._quotas.pop(namespace, None)
        if tree is not None:
            self._quotas[namespace] = tree
            self._last[namespace] = entry.client, _pods(tree) - _pods(before or tree)

    def problems_of(self, entry: Entry, created: Pod) -> Iterator[tuple[str, str]]:
        """Yield the invariants that a new pod violates. A quota that was never counted limits nothing."""
        namespace = created.key.split("/")[0]
        status = self._quotas.get(namespace, {}).get("status") or {}
        used = status.get("used") or {}
        for name, hard in (status.get("hard") or {}).items():
            if amount(used[name]) > amount(hard):
                yield "no quota is exceeded", f"{namespace}: {name} {used[name]} of {hard}"
        if used and self._last[namespace] != (entry.client, 1.0):
            yield "admitted pods are charged", f"pod {created.key}"

    def miscounted(self, pods: list[Pod]) -> Iterator[str]:
        """Yield the quotas whose usage is wrong. Pods that are being deleted may count or not."""
        for namespace, quota in self._quotas.items():
            mine = [pod for pod in pods if pod.key.startswith(f"{namespace}/") and not pod.finished]
            if any(pod.terminating for pod in mine):
                continue
            for name, used in ((quota.get("status") or {}).get("used") or {}).items():
                total = round(sum(pod.requests.get(name.removeprefix("requests."), 0.0) for pod in mine), 3)
                if total != amount(used):
                    yield f"quota of {namespace}: {name} is {used} instead of {total:g}"


def _pods(quota: Tree) -> float:
    return amount(((quota.get("status") or {}).get("used") or {}).get("pods", 0))
