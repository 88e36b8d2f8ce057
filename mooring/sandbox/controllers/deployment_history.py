"""The revisions of Deployments: which ReplicaSet has which template, and how templates are compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mooring.api.selectors import parse_int64
from mooring.api.workloads import Deployment, ReplicaSet
from mooring.sandbox.controllers.deployment_scaling import (
    DESIRED_REPLICAS,
    INT32_MAX,
    MAX_REPLICAS,
    by_age,
    replicas_annotations,
)
from mooring.sandbox.controllers.templates import hash_of

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
TEMPLATE_HASH = "pod-template-hash"
LONGEST_HISTORY = 2000  # characters
LONGEST_NAME = 253

_OWN = {
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
}
"""Annotations that are a Deployment's own: its ReplicaSets get the others."""


# ---- templates -----------------------------------------------------------------------------------------


def split(
    deployment: Deployment, replica_sets: Iterable[ReplicaSet]
) -> tuple[ReplicaSet | None, list[ReplicaSet]]:
    """The ReplicaSet that has the Deployment's template, the oldest if there are several, and all others."""
    ordered = by_age(replica_sets)
    template = _comparable(deployment.spec.template)
    new = next((rs for rs in ordered if _comparable(rs.spec.template) == template), None)
    return new, [rs for rs in ordered if rs is not new]


def _comparable(template: dict[str, Any]) -> dict[str, Any]:
    """Return a template in comparable form: without the hash and without empty fields."""
    metadata = template.get("metadata") or {}
    labels = {key: text for key, text in (metadata.get("labels") or {}).items() if key != TEMPLATE_HASH}
    bare: dict[str, Any] = _without_nulls({**template, "metadata": {**metadata, "labels": labels}})
    return bare


def _without_nulls(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_nulls(part) for key, part in tree.items() if part is not None and part != []}
    return [_without_nulls(part) for part in tree] if isinstance(tree, list) else tree


def replica_set_body(
    deployment: Deployment, size: int, revision: int, owner: dict[str, Any]
) -> dict[str, Any]:
    """A new ReplicaSet for the Deployment's template. Its name follows from the template."""
    spec = deployment.spec
    digest = hash_of(spec.template, deployment.status.collision_count)
    metadata = spec.template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), TEMPLATE_HASH: digest}
    assert spec.selector is not None
    selector: dict[str, Any] = {"matchLabels": {**spec.selector.match_labels, TEMPLATE_HASH: digest}}
    if spec.selector.match_expressions:
        selector["matchExpressions"] = spec.selector.match_expressions
    room = LONGEST_NAME - len(digest) - 1
    body: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{deployment.name[:room]}-{digest}",
            "labels": labels,
            "annotations": annotations_of_new(deployment, {}, revision) | replicas_annotations(deployment),
            "ownerReferences": [owner],
        },
        "spec": {
            "replicas": size,
            "selector": selector,
            "template": {**spec.template, "metadata": {**metadata, "labels": labels}},
        },
    }
    if spec.min_ready_seconds:
        body["spec"]["minReadySeconds"] = spec.min_ready_seconds
    return body


# ---- revisions -----------------------------------------------------------------------------------------


def revision_of(rs: ReplicaSet) -> int | None:
    """The revision that a ReplicaSet is of; 0 where it says none, None where it says no number."""
    return parse_int64(rs.metadata.annotations.get(REVISION, "0"))


def next_revision(old: Iterable[ReplicaSet]) -> int:
    return max((revision_of(rs) or 0 for rs in old), default=0) + 1


def annotations_of_new(deployment: Deployment, present: dict[str, str], revision: int) -> dict[str, str]:
    """The annotations of the ReplicaSet with the Deployment's template: the Deployment's, and its revision,
    which only grows. One that is used again remembers which revisions it was."""
    copied = {key: text for key, text in deployment.metadata.annotations.items() if key not in _OWN}
    annotations = present | copied
    before = present.get(REVISION, "")
    number = parse_int64(before) if before else 0
    if number is None:
        return present
    if number >= revision:
        return annotations
    annotations[REVISION] = str(revision)
    if REVISION in present:
        annotations[REVISION_HISTORY] = _longer(present.get(REVISION_HISTORY, ""), before)
    return annotations


def _longer(history: str, revision: str) -> str:
    """A history with one more revision; the oldest go where it gets too long."""
    revisions = [*history.split(","), revision] if history else [revision]
    while len(revisions) > 1 and len(",".join(revisions)) > LONGEST_HISTORY:
        del revisions[0]
    return ",".join(revisions)


def outdated(deployment: Deployment, old: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return the ReplicaSets to delete: those of the oldest revisions, if they have no pods."""
    limit = deployment.spec.revision_history_limit
    if limit is None or limit == INT32_MAX:
        return []
    kept = [rs for rs in by_age(old) if rs.metadata.deletion_timestamp is None]
    kept.sort(key=lambda rs: revision_of(rs) or 0)
    return [rs for rs in kept[: max(len(kept) - limit, 0)] if _empty(rs)]


def _empty(rs: ReplicaSet) -> bool:
    seen = rs.metadata.generation <= rs.status.observed_generation
    return seen and rs.status.replicas == 0 and rs.spec.replicas == 0
