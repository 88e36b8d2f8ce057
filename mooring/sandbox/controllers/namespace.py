"""Namespaces: a deleted one goes when everything in it is gone."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec

from mooring.api.kinds import NAMESPACES, PODS, ApiResource
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.api.times import parse_time
from mooring.api.workloads import Namespace
from mooring.client.api_errors import ApiError, ClusterError
from mooring.client.controller import Context, Controller
from mooring.client.port import ServedKind

FINALIZER = "kubernetes"
GRACE_PERIOD = 5.0  # seconds for all API servers to learn that nothing is to be created there any more
FINALIZERS_ESTIMATE = 15  # seconds that finalizers are given
_TURN = 32

_FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
"""Conditions during the deletion of a namespace, with their reason and message if nothing blocks it."""


class _Findings:
    """What became of the content of a namespace, and how it reads in its conditions."""

    def __init__(self) -> None:
        self.estimate = 0  # seconds that what remains may take
        self.remaining: Counter[str] = Counter()  # objects, by kind
        self.finalizers: Counter[str] = Counter()
        self.failures: list[str] = []
        self.undiscovered = ""

    def troubles(self) -> dict[str, tuple[str, str]]:
        """Reasons and messages of the conditions that are True."""
        conditions: dict[str, tuple[str, str]] = {}
        if self.undiscovered:
            conditions["NamespaceDeletionDiscoveryFailure"] = ("DiscoveryFailed", self.undiscovered)
        if self.failures:
            names = ", ".join(sorted(self.failures))
            message = f"Failed to delete all resource types, {len(self.failures)} remaining: {names}"
            conditions["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", message)
        if self.remaining:
            each = (f"{name} has {count} resource instances" for name, count in self.remaining.items())
            message = f"Some resources are remaining: {', '.join(sorted(each))}"
            conditions["NamespaceContentRemaining"] = ("SomeResourcesRemain", message)
        if self.finalizers:
            each = (f"{name} in {count} resource instances" for name, count in self.finalizers.items())
            message = f"Some content in the namespace has finalizers remaining: {', '.join(sorted(each))}"
            conditions["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
        return conditions


class NamespaceController(Controller):
    name = "namespace-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._terminating: set[str] = set()  # those whose content is being deleted
        self._namespaces = self.cache.follow(NAMESPACES)
        self._pods = self.cache.follow(PODS)
        self._namespaces.subscribe(self._changed)
        self._pods.subscribe(self._pod_changed, updates=False)

    def _changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is None:
            assert old is not None
            self._terminating.discard(old.name)
        elif new.metadata.deletion_timestamp is not None and new.name not in self._terminating:
            self.enqueue(new.name, GRACE_PERIOD)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """The rest may go once the last pod is gone."""
        namespace = "" if old is None or new is not None else old.namespace
        if namespace in self._terminating and not self._pods.in_namespace(namespace):
            self.enqueue(namespace)

    async def sync(self, key: str) -> None:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is None:
            return
        if not namespace.spec.finalizers:
            return
        self._terminating.add(key)
        findings = _Findings()
        await self._empty(namespace, findings)
        if findings.estimate:
            self.enqueue(key, findings.estimate // 2 + 1)
        elif findings.failures or findings.undiscovered:
            raise ClusterError(f"namespace {key}: {'; '.join(findings.failures) or findings.undiscovered}")
        else:
            await self._finalize(namespace)

    # ---- content

    async def _empty(self, namespace: Namespace, findings: _Findings) -> None:
        """Delete everything, pods first: they may need the rest until they end."""
        try:
            kinds = await self.cluster.served_kinds()
        except ClusterError as failure:
            findings.undiscovered = str(failure)
            kinds = ()
        content = [one for one in kinds if one.resource.namespaced and one.verbs >= {"delete", "list"}]
        content.sort(key=lambda one: one.resource.name != "pods")
        for served in content:
            await self._empty_kind(namespace, served, findings)
            if served.resource.name == "pods" and findings.remaining:
                findings.remaining.clear()  # as with kube-controller-manager, conditions do not tell of pods
                findings.finalizers.clear()
                break
        await self._write_conditions(namespace, findings.troubles())

    async def _empty_kind(self, namespace: Namespace, served: ServedKind, findings: _Findings) -> None:
        resource = served.resource
        estimate = self._estimate(namespace) if resource.name == "pods" else 0
        try:
            for count, obj in enumerate(
                (await self.cluster.list(resource, namespace=namespace.name)).items, 1
            ):
                await self._delete(resource, obj)
                if count % _TURN == 0:
                    await asyncio.sleep(0)
            left = (await self.cluster.list(resource, namespace=namespace.name)).items
        except ClusterError as failure:
            if not isinstance(failure, ApiError) or failure.code not in (404, 405):
                findings.failures.append(str(failure))
                findings.estimate = max(findings.estimate, estimate)
            return
        if not left:
            return
        findings.remaining[f"{resource.plural}.{resource.group}"] = len(left)
        finalizers = Counter(name for obj in left for name in obj.metadata.finalizers)
        findings.finalizers += finalizers
        if not estimate and finalizers:
            estimate = FINALIZERS_ESTIMATE
        if not estimate:
            where = f"{resource.group}/{resource.version}, Resource={resource.plural}"
            findings.failures.append(
                f"unexpected items still remain in namespace: {namespace.name} for gvr: {where}"
            )
        findings.estimate = max(findings.estimate, estimate)

    async def _delete(self, resource: ApiResource[KubeObject], obj: KubeObject) -> None:
        try:
            await self.cluster.delete(
                resource, obj.name, obj.namespace, uid=obj.uid, propagation_policy="Background"
            )
        except ApiError as refusal:
            if not (refusal.not_found or refusal.conflict):
                raise

    def _estimate(self, namespace: Namespace) -> int:
        """For how many seconds pods may still end in their own time."""
        longest = max(
            (
                pod.spec.termination_grace_period_seconds or 0
                for pod in self._pods.in_namespace(namespace.name)
                if not pod.finished
            ),
            default=0,
        )
        assert namespace.metadata.deletion_timestamp is not None
        deleted = parse_time(namespace.metadata.deletion_timestamp)
        return longest if self.context.clock() - deleted < longest else 0

    # ---- writing

    async def _write_conditions(self, namespace: Namespace, troubles: dict[str, tuple[str, str]]) -> None:
        before = {one.type: one for one in namespace.status.conditions}
        after: list[dict[str, Any]] = []
        changed = False
        for type, fine in _FINE.items():
            status = "True" if type in troubles else "False"
            reason, message = troubles.get(type, fine)
            old = before.pop(type, None)
            since = self.context.now()
            if old is not None and old.status == status:
                since = old.last_transition_time or since
            changed = (
                changed or old is None or (old.status, old.reason, old.message) != (status, reason, message)
            )
            after.append(
                {
                    "type": type,
                    "status": status,
                    "reason": reason,
                    "message": message,
                    "lastTransitionTime": since,
                }
            )
        if changed:
            others = [msgspec.to_builtins(one) for one in before.values()]
            patch = {"status": {"conditions": [*others, *after]}}
            written = await self.cluster.patch(NAMESPACES, namespace.name, patch, subresource="status")
            self._namespaces.wrote(written)

    async def _finalize(self, namespace: Namespace) -> None:
        """Take our finalizer off; where it was the last, the namespace is gone."""
        kept = [one for one in namespace.spec.finalizers if one != FINALIZER]
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace.name, "uid": namespace.uid},
            "spec": {"finalizers": kept},
        }
        try:
            await self.cluster.update(NAMESPACES, namespace.name, body, subresource="finalize")
        except ApiError as refusal:
            if not refusal.not_found:
                raise
