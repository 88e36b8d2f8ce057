"""PodDisruptionBudgets by the pods that they cover."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mooring.api.selectors import Selector, SelectorError, compile_selector
from mooring.api.workloads import PodDisruptionBudget
from mooring.framework.pod import PodInfo, Shape


class Budgets:
    """Budgets as they are now. Only those of the namespaces of possible victims are looked at, once for all
    pods of a shape: a client may create thousands of budgets in a namespace of its own."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[PodDisruptionBudget]] = {}
        for budget in budgets:
            self._by_namespace.setdefault(budget.metadata.namespace, []).append(budget)
        self._selectors: dict[str, list[tuple[PodDisruptionBudget, Selector]]] = {}
        self._selecting: dict[Shape, Sequence[PodDisruptionBudget]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def covering(self, pod: PodInfo) -> Iterable[PodDisruptionBudget]:
        """The budgets that evicting a pod uses up."""
        if pod.namespace not in self._by_namespace or not pod.labels:
            return ()
        selecting = self._selecting.get(pod.shape)
        if selecting is None:
            selectors = self._selectors_in(pod.namespace)
            selecting = [budget for budget, selector in selectors if selector.matches(pod.labels)]
            self._selecting[pod.shape] = selecting
        return (budget for budget in selecting if pod.name not in budget.status.disrupted_pods)

    def _selectors_in(self, namespace: str) -> list[tuple[PodDisruptionBudget, Selector]]:
        compiled = self._selectors.get(namespace)
        if compiled is None:
            compiled = self._selectors[namespace] = list(_compiled(self._by_namespace[namespace]))
        return compiled


def _compiled(budgets: Iterable[PodDisruptionBudget]) -> Iterable[tuple[PodDisruptionBudget, Selector]]:
    """The budgets that may cover something; an invalid selector covers nothing."""
    for budget in budgets:
        try:
            selector = compile_selector(budget.spec.selector)
        except SelectorError:
            continue
        if not selector.empty:
            yield budget, selector


class Evictions:
    """What evictions in some order leave of the budgets."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._allowed: dict[str, int] = {}  # by key of the budget

    def violated(self, pod: PodInfo) -> Iterable[PodDisruptionBudget]:
        """Use up what covers a pod, budget by budget; the budgets that had nothing left."""
        for budget in self._budgets.covering(pod):
            left = self._allowed.get(budget.key, budget.status.disruptions_allowed) - 1
            self._allowed[budget.key] = left
            if left < 0:
                yield budget


def split_by_budgets(pods: Sequence[PodInfo], budgets: Budgets) -> tuple[list[PodInfo], list[PodInfo]]:
    """The pods whose eviction some budget forbids, and the others; each eviction uses the budgets up."""
    evictions = Evictions(budgets)
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        (violating if list(evictions.violated(pod)) else others).append(pod)
    return violating, others
