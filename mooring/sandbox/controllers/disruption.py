"""Disruption budgets: how many of the pods they cover may be disrupted at present.

Evictions read it from the status, and count themselves there until they are seen here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from mooring.api.kinds import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    ApiResource,
)
from mooring.api.meta import KubeObject, LabelSelector, OwnerReference, Struct
from mooring.api.objects import Pod
from mooring.api.selectors import Selector, SelectorError, compile_selector
from mooring.api.times import parse_time
from mooring.api.workloads import PodDisruptionBudget, PodDisruptionBudgetStatus
from mooring.client.api_errors import ApiError
from mooring.client.cache import Collection
from mooring.client.controller import Context, Controller
from mooring.client.port import PatchType

DELETION_TIMEOUT = 120.0  # seconds within which an evicted pod should be deleted
STALE_CONDITION = 120.0  # seconds after which a pod that was to be disrupted and was not is marked so
PAUSE = 0.05  # pods change in crowds: a status that is late by so little serves as well
ALLOWED = "DisruptionAllowed"


class _ScaleSpec(Struct):
    replicas: int = 0


class Scale(KubeObject):
    spec: _ScaleSpec = msgspec.field(default_factory=_ScaleSpec)


class SyncError(Exception):
    """The status of a budget cannot be computed; the reason is written to it."""


class _Counts(NamedTuple):
    expected: int
    desired: int
    unmanaged: bool = False


class DisruptionController(Controller):
    """In the queue are budgets, and, after "pod/", pods that may have been spared."""

    name = "controllermanager"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._selectors: dict[str, tuple[LabelSelector | None, Selector]] = {}  # by the key of the budget
        self._budgets = self.cache.follow(POD_DISRUPTION_BUDGETS)
        self._pods = self.cache.follow(PODS)
        self._deployments = self.cache.follow(DEPLOYMENTS)
        self._replica_sets = self.cache.follow(REPLICA_SETS)
        self._scaled: dict[tuple[str, str], Collection[Any]] = {
            ("apps", "StatefulSet"): self.cache.follow(STATEFUL_SETS),
            ("", "ReplicationController"): self.cache.follow(REPLICATION_CONTROLLERS),
        }
        self._budgets.subscribe(self._budget_changed)
        self._pods.subscribe(self._pod_changed)

    # ---- what changes

    def _budget_changed(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        if new is not None:
            self.enqueue(new.key)
        elif old is not None:
            self._selectors.pop(old.key, None)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and _spared_since(new) is not None:
            self.enqueue(f"pod/{new.key}")
        pod = old if new is None else new
        assert pod is not None
        if not len(self._budgets) or (old is not None and new is not None and _counts_alike(old, new)):
            return
        for budget in self._budgets.in_namespace(pod.namespace):
            selector = self._selector(budget)
            if any(one is not None and selector.matches(one.metadata.labels) for one in (old, new)):
                self.enqueue(budget.key, PAUSE)

    def _selector(self, budget: PodDisruptionBudget) -> Selector:
        cached = self._selectors.get(budget.key)
        if cached is None or cached[0] is not budget.spec.selector:
            try:
                compiled = compile_selector(budget.spec.selector)
            except SelectorError:
                compiled = compile_selector(None)
            cached = self._selectors[budget.key] = (budget.spec.selector, compiled)
        return cached[1]

    # ---- budgets

    async def sync(self, key: str) -> None:
        if key.startswith("pod/"):
            await self._spare(key.removeprefix("pod/"))
            return
        budget = self._budgets.get(key)
        if budget is None:
            return
        try:
            await self._count(budget)
        except SyncError as error:
            note = f"Failed to calculate the number of expected pods: {error}"
            self.event(self._budgets, budget, "Warning", "CalculateExpectedPodCountFailed", note)
            status = {
                "disruptionsAllowed": 0,
                "conditions": self._conditions(
                    budget, budget.status.observed_generation, "False", "SyncFailed", str(error)
                ),
            }
            await self._write(budget, status)

    async def _count(self, budget: PodDisruptionBudget) -> None:
        selector = self._selector(budget)
        pods = [
            pod for pod in self._pods.in_namespace(budget.namespace) if selector.matches(pod.metadata.labels)
        ]
        if not pods:
            self.event(self._budgets, budget, "Normal", "NoPods", "No matching pods found")
        counts = await self._expected(budget, pods)
        if counts.unmanaged:
            self.event(self._budgets, budget, "Warning", "UnmanagedPods", _unmanaged(budget.spec.selector))
        disrupted = self._disrupted(budget, pods)
        healthy = sum(
            pod.ready and pod.metadata.deletion_timestamp is None and pod.name not in disrupted
            for pod in pods
        )
        allowed = max(healthy - counts.desired, 0) if counts.expected > 0 else 0
        generation = budget.metadata.generation
        verdict = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
        status = {
            "observedGeneration": generation,
            "disruptedPods": disrupted,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": counts.desired,
            "expectedPods": counts.expected,
            "conditions": self._conditions(budget, generation, *verdict),
        }
        await self._write(budget, status)

    async def _expected(self, budget: PodDisruptionBudget, pods: list[Pod]) -> _Counts:
        """How many pods there should be, and how many of them healthy."""
        spec = budget.spec
        if spec.max_unavailable is None and not isinstance(spec.min_available, str):
            return _Counts(len(pods) if spec.min_available is not None else 0, spec.min_available or 0)
        scales: dict[str, int] = {}
        unmanaged = False
        for pod in pods:
            owner = pod.metadata.controller()
            if owner is None:
                unmanaged = True
            elif owner.uid not in scales:
                uid, scale = await self._scale(pod, owner)
                scales[owner.uid] = 0  # several ReplicaSets may be of one Deployment
                scales[uid] = scale
        expected = sum(scales.values())
        if spec.max_unavailable is not None:
            return _Counts(expected, max(expected - _part(spec.max_unavailable, expected), 0), unmanaged)
        assert spec.min_available is not None
        return _Counts(expected, _part(spec.min_available, expected), unmanaged)

    async def _scale(self, pod: Pod, owner: OwnerReference) -> tuple[str, int]:
        """The uid of what decides how many pods there are of this kind, and how many that is."""
        group = owner.api_version.rpartition("/")[0]
        if (group, owner.kind) == ("apps", "ReplicaSet"):
            replica_set = self._replica_sets.get(f"{pod.namespace}/{owner.name}")
            if replica_set is not None and replica_set.uid == owner.uid:
                above = replica_set.metadata.controller()
                if above is None or above.kind != "Deployment":
                    return replica_set.uid, replica_set.spec.replicas
                deployment = self._deployments.get(f"{pod.namespace}/{above.name}")
                if deployment is not None and deployment.uid == above.uid:
                    return deployment.uid, deployment.spec.replicas
            raise SyncError(f'found no controllers for pod "{pod.name}"')
        collection = self._scaled.get((group, owner.kind))
        if collection is not None:
            workload = collection.get(f"{pod.namespace}/{owner.name}")
            if workload is not None and workload.uid == owner.uid:
                return workload.uid, workload.spec.replicas
            raise SyncError(f'found no controllers for pod "{pod.name}"')
        return await self._other_scale(pod, owner, group)

    async def _other_scale(self, pod: Pod, owner: OwnerReference, group: str) -> tuple[str, int]:
        """Return the expected number of pods from the scale subresource of any other kind."""
        for served in await self.cluster.served_kinds():
            if (served.resource.group, served.kind) == (group, owner.kind):
                break
        else:
            raise SyncError(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"')
        kind = served.resource
        scale = ApiResource(kind.group, kind.version, kind.plural, kind.namespaced, Scale)
        try:
            scale_object = await self.cluster.get(scale, owner.name, pod.namespace, "scale")
        except ApiError as refusal:
            if not refusal.not_found:
                raise
            await self._check_scalable(pod, owner, scale)
        else:
            if scale_object.uid == owner.uid:
                return scale_object.uid, scale_object.spec.replicas
        raise SyncError(f'found no controllers for pod "{pod.name}"')

    async def _check_scalable(self, pod: Pod, owner: OwnerReference, scale: ApiResource[Scale]) -> None:
        """Where the owner itself is there, it is its scale that is missing."""
        try:
            await self.cluster.get(scale, owner.name, pod.namespace)
        except ApiError as refusal:
            if not refusal.not_found:
                raise
        else:
            raise SyncError(f"{scale.name} does not implement the scale subresource")

    def _disrupted(self, budget: PodDisruptionBudget, pods: list[Pod]) -> dict[str, str]:
        """The evictions that were granted and have not been seen yet. They are not waited for for ever."""
        disrupted, now = budget.status.disrupted_pods, self.context.clock()
        still_disrupted: dict[str, str] = {}
        for pod in pods if disrupted else ():
            since = disrupted.get(pod.name)
            if since is None or pod.terminating:
                continue
            left = parse_time(since) + DELETION_TIMEOUT - now
            if left > 0:
                still_disrupted[pod.name] = since
                self.enqueue(budget.key, left)
            else:
                where = f"{budget.namespace}/{budget.namespace}"  # as kube-controller-manager has it
                note = f"Pod was expected by PDB {where} to be deleted but it wasn't"
                self.event(self._pods, pod, "Warning", "NotDeleted", note)
        return still_disrupted

    # ---- writing

    def _conditions(
        self, budget: PodDisruptionBudget, generation: int, status: str, reason: str, message: str = ""
    ) -> list[dict[str, Any]]:
        before = next((one for one in budget.status.conditions if one.type == ALLOWED), None)
        since = self.context.now()
        if before is not None and before.status == status:
            since = before.last_transition_time or since
        condition = {
            "type": ALLOWED,
            "status": status,
            "observedGeneration": generation,
            "lastTransitionTime": since,
            "reason": reason,
            "message": message,
        }
        others = [msgspec.to_builtins(one) for one in budget.status.conditions if one.type != ALLOWED]
        return [*others, condition]

    async def _write(self, budget: PodDisruptionBudget, status: dict[str, Any]) -> None:
        """Write a status that differs, unless an eviction was granted meanwhile."""
        updated = msgspec.convert({**msgspec.to_builtins(budget.status), **status}, PodDisruptionBudgetStatus)
        if updated == budget.status:
            return
        gone = {name: None for name in budget.status.disrupted_pods if name not in updated.disrupted_pods}
        patch = {
            "metadata": {"resourceVersion": budget.metadata.resource_version},
            "status": {**status, "disruptedPods": {**updated.disrupted_pods, **gone}},
        }
        self._budgets.wrote(
            await self.cluster.patch(
                POD_DISRUPTION_BUDGETS, budget.name, patch, budget.namespace, subresource="status"
            )
        )

    # ---- pods that were spared

    async def _spare(self, key: str) -> None:
        pod = self._pods.get(key)
        since = None if pod is None else _spared_since(pod)
        if pod is None or since is None:
            return
        left = parse_time(since) + STALE_CONDITION - self.context.clock()
        if left > 0:
            self.enqueue(f"pod/{key}", left)
            return
        condition = {
            "type": "DisruptionTarget",
            "status": "False",
            "reason": None,
            "message": None,
            "lastTransitionTime": self.context.now(),
        }
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        written = await self.cluster.patch(
            PODS, pod.name, patch, pod.namespace, subresource="status", kind=PatchType.STRATEGIC
        )
        self._pods.wrote(written)


def _spared_since(pod: Pod) -> str | None:
    """Since when a pod is said to be about to be disrupted, which it is not, as far as can be seen."""
    if not pod.active:
        return None
    for one in pod.status.conditions:
        if one.type == "DisruptionTarget" and one.status == "True" and one.reason != "TerminationByKubelet":
            return one.last_transition_time
    return None


def _counts_alike(old: Pod, new: Pod) -> bool:
    return (
        old.ready == new.ready
        and old.terminating == new.terminating
        and old.metadata.labels == new.metadata.labels
        and old.metadata.owner_references == new.metadata.owner_references
    )


def _part(value: int | str, total: int) -> int:
    """A number, or a percentage of the total, rounded up."""
    return value if isinstance(value, int) else -(-int(value.removesuffix("%")) * total // 100)


def _unmanaged(selector: LabelSelector | None) -> str:
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {_in_go(selector)}) were found to be "
        "unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in "
        'undefined behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to '
        "an integer value."
    )


def _in_go(selector: LabelSelector | None) -> str:
    """A selector as Go prints it."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.match_labels.items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{one.key},Operator:{one.operator},Values:[{' '.join(one.values)}],}},"
        for one in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
