"""PodGroupProtection and PodGroupWorkloadExists."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import forbidden
from mooring.sandbox.apiserver.objects import Tree, dig

_POD_GROUPS: Final = "podgroups.scheduling.k8s.io"
_WORKLOADS: Final = "workloads.scheduling.k8s.io"
_FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"


class PodGroupProtection(AdmissionPlugin):
    """Add the finalizer that keeps a group while pods are in it."""

    storages = frozenset({_POD_GROUPS})

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        metadata = obj["metadata"]
        present = metadata.get("finalizers") or []
        if _FINALIZER not in present:
            metadata["finalizers"] = [*present, _FINALIZER]


class PodGroupWorkloadExists(AdmissionPlugin):
    """Reject a group that names a template that does not exist."""

    storages = frozenset({_POD_GROUPS})

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        reference = dig(obj, "spec", "podGroupTemplateRef", "workload")
        if reference is None:
            return
        name, template = reference["workloadName"], reference["podGroupTemplateName"]
        workload = write.api.read(_WORKLOADS, name, write.namespace)
        if workload is None:
            raise _rejected(write, f'Workload "{name}" not found')
        if "deletionTimestamp" in workload["metadata"]:
            raise _rejected(write, f'Workload "{name}" is being deleted')
        if all(each["name"] != template for each in workload["spec"]["podGroupTemplates"]):
            raise _rejected(write, f'PodGroupTemplate "{template}" not found in Workload "{name}"')


def _rejected(write: Write, why: str) -> Exception:
    return forbidden("scheduling.k8s.io", "podgroups", write.name, f"PodGroup rejected: {why}")
