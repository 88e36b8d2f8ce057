"""The claims that the resourceclaim controller makes of templates, for manifests that are scheduled without a
cluster. Names lack the random suffix, so that runs repeat."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mooring.api.decode import from_dict
from mooring.api.defaults import identified
from mooring.api.devices import ResourceClaim, ResourceClaimTemplate
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod, PodResourceClaim, PodResourceClaimStatus
from mooring.sandbox.controllers.resource_claim import claim_body


def with_first_claims(objects: Iterable[KubeObject]) -> list[KubeObject]:
    """Return the objects with the claims that pods lack, each named in the pod's status."""
    objects = list(objects)
    templates = {obj.key: obj for obj in objects if isinstance(obj, ResourceClaimTemplate)}
    taken = {obj.key for obj in objects if isinstance(obj, ResourceClaim)}
    made: list[KubeObject] = []
    for i, pod in enumerate(objects):
        if not isinstance(pod, Pod):
            continue
        statuses = list(pod.status.resource_claim_statuses)
        for entry in pod.spec.resource_claims:
            template = templates.get(f"{pod.namespace}/{entry.resource_claim_template_name}")
            if template is None or any(status.name == entry.name for status in statuses):
                continue
            claim = _claim(pod, entry, template, taken)
            taken.add(claim.key)
            made.append(claim)
            statuses.append(PodResourceClaimStatus(name=entry.name, resource_claim_name=claim.name))
        objects[i] = replace(pod, status=replace(pod.status, resource_claim_statuses=statuses))
    return [*objects, *made]


def _claim(pod: Pod, entry: PodResourceClaim, template: ResourceClaimTemplate, taken: set[str]) -> KubeObject:
    body = claim_body(pod, entry, template)
    base = body["metadata"].pop("generateName")
    name = base.rstrip("-")
    number = 0
    while f"{pod.namespace}/{name}" in taken:
        number += 1
        name = f"{base}{number}"
    body["metadata"] |= {"name": name, "namespace": pod.namespace}
    return identified(from_dict(body), namespaced=True)
