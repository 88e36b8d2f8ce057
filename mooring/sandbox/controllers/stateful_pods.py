"""The pods of StatefulSets: each has a number, and with it a name, a host name and volumes of its own."""

from __future__ import annotations

from typing import Final

from mooring.api.kinds import STATEFUL_SETS
from mooring.api.meta import Tree
from mooring.api.workloads import ControllerRevision, StatefulSet
from mooring.sandbox.controllers.owning import controller_reference
from mooring.sandbox.controllers.revisions import template_of
from mooring.sandbox.controllers.stateful_claims import claim_name
from mooring.sandbox.controllers.templates import pod_of

REVISION: Final = "controller-revision-hash"
POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"


def member_of(set: StatefulSet, revision: ControllerRevision, ordinal: int) -> Tree:
    """The body of the pod with this number, as a revision has it."""
    name = f"{set.name}-{ordinal}"
    body = pod_of(template_of(revision), set.name, controller_reference(STATEFUL_SETS, set))
    metadata = body["metadata"]
    metadata["name"] = name
    own = {POD_NAME: name, POD_INDEX: str(ordinal), REVISION: revision.name}
    metadata["labels"] = {**metadata.get("labels", {}), **own}
    spec = body["spec"] = {**body["spec"], "hostname": name}
    if set.spec.service_name:
        spec["subdomain"] = set.spec.service_name
    claimed = {each["metadata"]["name"]: each for each in set.spec.volume_claim_templates}
    if claimed:
        volumes = [volume for volume in spec.get("volumes") or [] if volume.get("name") not in claimed]
        spec["volumes"] = [_volume(set, each, ordinal) for each in claimed.values()] + volumes
    return body


def _volume(set: StatefulSet, template: Tree, ordinal: int) -> Tree:
    claim = {"claimName": claim_name(set, template, ordinal)}
    return {"name": template["metadata"]["name"], "persistentVolumeClaim": claim}
