"""The history of pod templates that StatefulSets and DaemonSets keep, as ControllerRevisions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Generic, TypeVar

from mooring.api.kinds import CONTROLLER_REVISIONS
from mooring.api.meta import ObjectMeta, Tree
from mooring.api.selectors import Selector
from mooring.api.workloads import ControllerRevision, DaemonSet, StatefulSet
from mooring.client.api_errors import ApiError
from mooring.client.cache import Collection
from mooring.client.controller import Controller
from mooring.sandbox.controllers.owning import Claims, controller_reference, index_orphans
from mooring.sandbox.controllers.templates import safe_encode

Owner = TypeVar("Owner", StatefulSet, DaemonSet)


_LONGEST_PREFIX = 223
_ESCAPED = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


class History(Generic[Owner]):
    """The revisions of the objects of one kind. `label` is where a revision carries its hash."""

    def __init__(self, controller: Controller, owners: Collection[Owner], label: str) -> None:
        self.revisions = controller.cache.follow(CONTROLLER_REVISIONS)
        self.label = label
        self._controller = controller
        self._owners: Collection[Owner] = owners
        index_orphans(self.revisions)

    async def claim(self, owner: Owner, selector: Selector) -> list[ControllerRevision]:
        """The revisions of an owner, the oldest first."""
        claimed = await Claims(self._controller, self._owners, owner, selector, self.revisions).claim()
        return sorted(claimed, key=_age)

    async def current(
        self, owner: Owner, revisions: list[ControllerRevision]
    ) -> tuple[ControllerRevision, int]:
        """The revision of the owner's template, and how many collisions of names there were.

        A template that was there before becomes the latest revision again; a new one becomes a new revision.
        """
        collisions = owner.status.collision_count or 0
        data = _restoring(owner.spec.template)
        revision = next((each for each in reversed(revisions) if each.data == data), None)
        if revision is None:
            return await self._create(owner, data, _next(revisions), collisions)
        if revision is not revisions[-1]:
            revision = await self._controller.cluster.patch(
                CONTROLLER_REVISIONS, revision.name, {"revision": _next(revisions)}, revision.namespace
            )
            self.revisions.wrote(revision)
        return revision, collisions

    async def forget(self, revisions: Iterable[ControllerRevision], count: int) -> None:
        """Delete the first of some revisions."""
        for each, _ in zip(revisions, range(count), strict=False):
            await self._controller.delete(self.revisions, each)

    async def _create(
        self, owner: Owner, data: Tree, revision: int, collisions: int
    ) -> tuple[ControllerRevision, int]:
        while True:
            hash = hash_of(data, collisions)
            body = self._body(owner, data, revision, hash)
            try:
                return await self._controller.create(self.revisions, body, owner.namespace), collisions
            except ApiError as refusal:
                if refusal.reason != "AlreadyExists":
                    raise
            name = body["metadata"]["name"]
            there = await self._controller.cluster.get(CONTROLLER_REVISIONS, name, owner.namespace)
            if there.data == data:
                return there, collisions
            collisions += 1

    def _body(self, owner: Owner, data: Tree, revision: int, hash: str) -> Tree:
        labels = (owner.spec.template.get("metadata") or {}).get("labels") or {}
        return {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": revision_name(owner.name, hash),
                "labels": {**labels, self.label: hash},
                "annotations": owner.metadata.annotations,
                "ownerReferences": [controller_reference(self._owners.resource, owner)],
            },
            "data": json.loads(_encode(data)),  # clients compare it as text, with Go's order of keys
            "revision": revision,
        }


def first_revision(owner: DaemonSet | StatefulSet) -> ControllerRevision:
    """Return the first revision of an owner: its name and its pod template."""
    name = revision_name(owner.name, first_hash(owner))
    return ControllerRevision(metadata=ObjectMeta(name=name), data=_restoring(owner.spec.template))


def first_hash(owner: DaemonSet | StatefulSet) -> str:
    return hash_of(_restoring(owner.spec.template), 0)


def revision_name(owner: str, hash: str) -> str:
    return f"{owner[:_LONGEST_PREFIX]}-{hash}"


def template_of(revision: ControllerRevision) -> Tree:
    """The pod template that a revision keeps."""
    template = dict(revision.data["spec"]["template"])
    template.pop("$patch", None)
    return template


def hash_of(data: Tree, collisions: int) -> str:
    """What sets revisions apart in their names: the same as kube-controller-manager's of a StatefulSet."""
    text = _encode(data)
    number = 2166136261
    for byte in (text.translate(_ESCAPED) + str(collisions)).encode():  # FNV-1
        number = number * 16777619 & 0xFFFFFFFF ^ byte
    return safe_encode(str(number))


def _encode(data: Tree) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _restoring(template: Tree) -> Tree:
    """The strategic merge patch that puts this template in the place of another: `kubectl rollout undo`
    applies it."""
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def _next(revisions: list[ControllerRevision]) -> int:
    return revisions[-1].revision + 1 if revisions else 1


def _age(revision: ControllerRevision) -> tuple[int, str, str]:
    return revision.revision, revision.metadata.creation_timestamp or "", revision.name
