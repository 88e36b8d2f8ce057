"""Resource claims: made from templates for pods, reserved for pods that were placed without the scheduler,
freed when the pods that use them are done."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.devices import FINALIZER, POD_CLAIM_NAME, ConsumerReference, ResourceClaim
from mooring.api.devices import ResourceClaimTemplate as Template
from mooring.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from mooring.api.objects import Pod, PodResourceClaim
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.client.port import PatchType
from mooring.sandbox.controllers.claim_users import claim_name, claim_names, index_by_resource_claim, is_owner

MOST_CONSUMERS = 256
LONGEST_BASE = 57  # of a generated name: five random characters follow
_TEMPLATE = "resource claim template"


class ResourceClaimController(Controller):
    """In the queue are pods ("pod/NAMESPACE/NAME") and claims ("claim/NAMESPACE/NAME")."""

    name = "resource_claim"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = self.cache.follow(PODS)
        self._claims = self.cache.follow(RESOURCE_CLAIMS)
        self._templates = self.cache.follow(RESOURCE_CLAIM_TEMPLATES)
        index_by_resource_claim(self._pods)
        self._pods.index(_TEMPLATE, _templates_of, key="identity")
        self._pods.subscribe(self._pod_changed)
        self._claims.subscribe(self._claim_changed)
        self._templates.subscribe(self._template_changed)

    # ---- what changes

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = old if new is None else new
        assert pod is not None
        if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
            return
        if new is None or is_done(new):
            for name in claim_names(pod):
                self.enqueue(f"claim/{name}")
        elif not new.terminating and any(self._needs_work(new, entry) for entry in new.spec.resource_claims):
            self.enqueue(f"pod/{new.key}")

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = old if new is None else new
        assert claim is not None
        if new is not None:
            self.enqueue(f"claim/{new.key}")
        for pod in self._pods.by("resource claim", claim.key):
            self._pod_changed(pod, pod)

    def _template_changed(self, old: Template | None, new: Template | None) -> None:
        if new is not None and old is None:
            for pod in self._pods.by(_TEMPLATE, new.key):
                self._pod_changed(pod, pod)

    def _needs_work(self, pod: Pod, entry: PodResourceClaim) -> bool:
        """Whether an entry lacks a claim or a reservation. A claim of another pod is left alone."""
        is_known, name = claim_name(pod, entry)
        if not is_known or name is None:
            return not is_known
        claim = self._claims.get(f"{pod.namespace}/{name}")
        generated = entry.resource_claim_template_name is not None
        if claim is None:
            return generated
        if not pod.spec.node_name or (generated and not is_owner(pod, claim)):
            return False
        return _can_reserve(claim, pod)

    async def sync(self, key: str) -> None:
        what, _, name = key.partition("/")
        if what == "pod":
            pod = self._pods.get(name)
            if pod is not None and not pod.terminating:
                await self._provide(pod)
        else:
            claim = self._claims.get(name)
            if claim is not None:
                await self._release(claim)

    # ---- pods: claims from templates, and reservations

    async def _provide(self, pod: Pod) -> None:
        created = {}
        for entry in pod.spec.resource_claims:
            try:
                claim = await self._claim_for(pod, entry)
            except (ApiError, LookupError) as failure:
                note = f"PodResourceClaim {entry.name}: {failure}"
                self.event(self._pods, pod, "Warning", "FailedResourceClaimCreation", note)
                if isinstance(failure, LookupError):
                    return  # the template's creation enqueues the pod again
                raise
            if claim is not None:
                created[entry.name] = claim.name
        if created:
            pod = await self._write_names(pod, created)
        if pod.spec.node_name:
            await self._reserve_all(pod)

    async def _claim_for(self, pod: Pod, entry: PodResourceClaim) -> ResourceClaim | None:
        """Return the claim that was created for an entry, if its name is to be written into the status."""
        if entry.resource_claim_template_name is None:
            return None
        is_known, name = claim_name(pod, entry)
        current = self._claims.get(f"{pod.namespace}/{name}") if name is not None else None
        if is_known and (name is None or (current is not None and is_owner(pod, current))):
            return None
        for claim in self._claims.controlled_by(pod.uid):
            if (claim.metadata.annotations or {}).get(POD_CLAIM_NAME) == entry.name:
                return claim
        template_name = entry.resource_claim_template_name
        template = self._templates.get(f"{pod.namespace}/{template_name}")
        if template is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            raise LookupError(f'resource claim template "{template_name}": {missing}')
        body = claim_body(pod, entry, template)
        try:
            return await self.create(self._claims, body, pod.namespace)
        except ApiError as refusal:
            message = f"create ResourceClaim : {refusal.message}"
            raise ApiError(refusal.code, refusal.reason, message, details=refusal.details) from None

    async def _write_names(self, pod: Pod, created: dict[str, str]) -> Pod:
        statuses = [{"name": name, "resourceClaimName": claim} for name, claim in created.items()]
        patch = {"metadata": {"uid": pod.uid}, "status": {"resourceClaimStatuses": statuses}}
        written = await self.cluster.patch(
            PODS, pod.name, patch, pod.namespace, subresource="status", kind=PatchType.STRATEGIC
        )
        self._pods.wrote(written)
        return written

    async def _reserve_all(self, pod: Pod) -> None:
        """Reserve allocated claims for a pod that has a node; the scheduler has done so for its own pods."""
        for entry in pod.spec.resource_claims:
            _, name = claim_name(pod, entry)
            claim = self._claims.get(f"{pod.namespace}/{name}") if name is not None else None
            if claim is None or (entry.resource_claim_template_name is not None and not is_owner(pod, claim)):
                continue
            if _can_reserve(claim, pod):
                consumers = _trees(claim.status.reserved_for)
                consumers.append({"resource": "pods", "name": pod.name, "uid": pod.uid})
                await self._write_status(claim, {"reservedFor": consumers})

    # ---- claims: reservations that end, deallocation, deletion

    async def _release(self, claim: ResourceClaim) -> None:
        consumers = claim.status.reserved_for
        remaining = [one for one in consumers if await self._still_needs(claim, one)]
        protected = FINALIZER in claim.metadata.finalizers
        if len(remaining) < len(consumers):
            status: dict[str, Any] = {"reservedFor": _trees(remaining) or None}
            if not remaining and protected:
                status["allocation"] = None
            claim = await self._write_status(claim, status)
            if claim.allocation is None:
                await self._unprotect(claim)
        elif protected and claim.metadata.deletion_timestamp is not None and not remaining:
            if claim.allocation is not None:
                claim = await self._write_status(claim, {"allocation": None})
            await self._unprotect(claim)
        if not remaining:
            await self._delete_unused(claim)

    async def _still_needs(self, claim: ResourceClaim, consumer: ConsumerReference) -> bool:
        if consumer.api_group or consumer.resource != "pods":
            return True
        pod = self._pods.get(f"{claim.namespace}/{consumer.name}")
        if pod is None:  # the claim may be reserved for a pod that the cache does not have yet
            try:
                pod = await self.cluster.get(PODS, consumer.name, claim.namespace)
            except ApiError as refusal:
                if not refusal.not_found:
                    raise
                return False
        return pod.uid == consumer.uid and not is_done(pod)

    async def _unprotect(self, claim: ResourceClaim) -> None:
        finalizers = [one for one in claim.metadata.finalizers if one != FINALIZER]
        if len(finalizers) == len(claim.metadata.finalizers):
            return
        metadata = {"finalizers": finalizers or None, "resourceVersion": claim.metadata.resource_version}
        written = await self.cluster.patch(
            RESOURCE_CLAIMS, claim.name, {"metadata": metadata}, claim.namespace
        )
        if written.metadata.deletion_timestamp is None:  # else it may be gone by this very write
            self._claims.wrote(written)

    async def _delete_unused(self, claim: ResourceClaim) -> None:
        """Delete a claim that was generated for a pod which is done or was replaced."""
        owner = claim.metadata.controller()
        if owner is None or owner.kind != "Pod" or claim.metadata.deletion_timestamp is not None:
            return
        pod = self._pods.get(f"{claim.namespace}/{owner.name}")
        if pod is not None and (pod.uid != owner.uid or is_done(pod)):
            await self.delete(self._claims, claim)

    async def _write_status(self, claim: ResourceClaim, status: dict[str, Any]) -> ResourceClaim:
        patch = {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status}
        written = await self.cluster.patch(
            RESOURCE_CLAIMS, claim.name, patch, claim.namespace, subresource="status"
        )
        self._claims.wrote(written)
        return written


def is_done(pod: Pod) -> bool:
    """Whether a pod will never run, or never again."""
    return pod.finished or (pod.terminating and not pod.spec.node_name)


def _can_reserve(claim: ResourceClaim, pod: Pod) -> bool:
    is_needed = claim.allocation is not None and not claim.is_reserved_for(pod.uid)
    return is_needed and len(claim.status.reserved_for) < MOST_CONSUMERS


def _templates_of(pod: Pod) -> tuple[str, ...]:
    names = {entry.resource_claim_template_name for entry in pod.spec.resource_claims}
    return tuple(f"{pod.namespace}/{name}" for name in names if name is not None)


def claim_body(pod: Pod, entry: PodResourceClaim, template: Template) -> dict[str, Any]:
    """The claim that an entry of a pod calls for."""
    metadata = template.spec.metadata
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": _base_name(pod.name, entry.name),
            "ownerReferences": [owner],
            "annotations": {**(metadata.annotations or {}), POD_CLAIM_NAME: entry.name},
            **({"labels": metadata.labels} if metadata.labels else {}),
        },
        "spec": msgspec.to_builtins(template.spec.spec),
    }


def _base_name(pod: str, entry: str) -> str:
    """Both names, shortened in proportion if they are too long together."""
    base = f"{pod}-{entry}-"
    if len(base) <= LONGEST_BASE:
        return base
    shortened = pod[: len(pod) * LONGEST_BASE // len(base)]
    return f"{shortened}-{entry[: len(entry) * LONGEST_BASE // len(base)]}"


def _trees(consumers: list[ConsumerReference]) -> list[dict[str, Any]]:
    trees: list[dict[str, Any]] = msgspec.to_builtins(consumers)
    return trees
