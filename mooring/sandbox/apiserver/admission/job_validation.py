"""JobValidation: a Job whose pods start together keeps its parallelism."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import forbidden
from mooring.sandbox.apiserver.objects import Tree, dig

_POD_GROUPS: Final = "podgroups.scheduling.k8s.io"


class JobValidation(AdmissionPlugin):
    """Reject another parallelism of a Job whose PodGroup is a gang."""

    operations = frozenset({"UPDATE"})
    storages = frozenset({"jobs.batch"})

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if old is None or dig(obj, "spec", "parallelism") == dig(old, "spec", "parallelism"):
            return
        for group in _groups_of(write, old):
            if dig(group, "spec", "schedulingPolicy", "gang") is not None:
                name = group["metadata"]["name"]
                reason = f'cannot change parallelism for a Job referencing gang-scheduled PodGroup "{name}"'
                raise forbidden("batch", "jobs", write.name, reason)


def _groups_of(write: Write, job: Tree) -> Iterator[Tree]:
    """The PodGroup that the template names, or else those that the Job controls."""
    name = dig(job, "spec", "template", "spec", "schedulingGroup", "podGroupName")
    if name is not None:
        group = write.api.read(_POD_GROUPS, name, write.namespace)
        if group is not None:
            yield group
        return
    for group in write.api.read_all(_POD_GROUPS, write.namespace):
        owners = group["metadata"].get("ownerReferences") or ()
        if any(each.get("controller") and each["uid"] == job["metadata"]["uid"] for each in owners):
            yield group
