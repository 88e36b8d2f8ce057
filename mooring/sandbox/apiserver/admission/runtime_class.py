"""RuntimeClass: set the overhead of a pod's runtime, and the nodes it can run on."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import forbidden
from mooring.sandbox.apiserver.objects import Tree, dig

_MISMATCH: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_UNDEFINED: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClass(AdmissionPlugin):
    storages = frozenset({"pods"})

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        spec = obj["spec"]
        name = spec.get("runtimeClassName")
        if name is None:
            if "overhead" in spec:
                raise forbidden("", "pods", write.name, _UNDEFINED)
            return
        runtime_class = write.api.read("runtimeclasses.node.k8s.io", name)
        if runtime_class is None:
            why = f'pod rejected: RuntimeClass "{name}" not found'
            raise forbidden("", "pods", write.name, why)
        overhead = dig(runtime_class, "overhead", "podFixed")
        if spec.get("overhead") and spec["overhead"] != overhead:
            raise forbidden(
                "", "pods", write.name, _MISMATCH if runtime_class.get("overhead") else _UNDEFINED
            )
        if overhead:
            spec["overhead"] = overhead
        if runtime_class.get("scheduling"):
            _restrict(write, spec, runtime_class["scheduling"])


def _restrict(write: Write, spec: Tree, scheduling: Tree) -> None:
    required, present = scheduling.get("nodeSelector") or {}, spec.get("nodeSelector") or {}
    for key, value in required.items():
        if present.get(key, value) != value:
            why = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {present[key]}"
            )
            raise forbidden("", "pods", write.name, why)
    if required:
        spec["nodeSelector"] = {**present, **required}
    tolerations = spec.get("tolerations") or []
    added = [one for one in scheduling.get("tolerations") or () if one not in tolerations]
    if added:
        spec["tolerations"] = [*tolerations, *added]
