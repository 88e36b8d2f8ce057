"""Priority: set the priority and the preemption policy of a pod from its priority class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import forbidden
from mooring.sandbox.apiserver.mirror import Mirror
from mooring.sandbox.apiserver.objects import Tree

_CLASSES = "priorityclasses.scheduling.k8s.io"
_POD_GROUPS = "podgroups.scheduling.k8s.io"


class PriorityClass(NamedTuple):
    name: str = ""
    value: int = 0
    preemption_policy: str = "PreemptLowerPriority"


class _Classes(NamedTuple):
    by_name: dict[str, PriorityClass]
    default: PriorityClass


def _read(trees: Iterable[Tree]) -> _Classes:
    by_name, default = {}, None
    for tree in trees:
        priority_class = PriorityClass(
            tree["metadata"]["name"],
            tree.get("value", 0),
            tree.get("preemptionPolicy", "PreemptLowerPriority"),
        )
        by_name[priority_class.name] = priority_class
        if tree.get("globalDefault") and (default is None or priority_class.value < default.value):
            default = priority_class
    return _Classes(by_name, default or PriorityClass())


def _not_for_clients(write: Write, provided: str, computed: object) -> ApiError:
    why = (
        f"{provided} must not be provided in pod spec; priority admission controller computed {computed} "
        "from the given PriorityClass name"
    )
    return forbidden("", "pods", write.name, why)


class Priority(AdmissionPlugin):
    operations = frozenset({"CREATE", "UPDATE"})
    storages = frozenset({"pods", _CLASSES, _POD_GROUPS})

    def __init__(self) -> None:
        self._classes = Mirror(_CLASSES, _read)

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if write.resource.storage == _POD_GROUPS:
            self._admit_group(write, obj["spec"], old)
        elif write.resource.storage == "pods":
            self._admit_pod(write, obj, old)

    def _admit_pod(self, write: Write, obj: Tree, old: Tree | None) -> None:
        spec = obj["spec"]
        if old is not None:  # updates may leave out what was computed
            for name in ("priority", "preemptionPolicy"):
                if name not in spec and name in old["spec"]:
                    spec[name] = old["spec"][name]
            return
        priority_class = self._class_of(write, spec.get("priorityClassName", ""))
        if spec.setdefault("priority", priority_class.value) != priority_class.value:
            provided = f"the integer value of priority ({spec['priority']})"
            raise _not_for_clients(write, provided, priority_class.value)
        policy = priority_class.preemption_policy
        if spec.setdefault("preemptionPolicy", policy) != policy:
            provided = f"the string value of PreemptionPolicy ({spec['preemptionPolicy']})"
            raise _not_for_clients(write, provided, policy)
        if priority_class.name:
            spec["priorityClassName"] = priority_class.name

    def _admit_group(self, write: Write, spec: Tree, old: Tree | None) -> None:
        if old is not None or "WorkloadAwarePreemption" not in write.api.features:
            return
        priority_class = self._class_of(write, spec.get("priorityClassName", ""))
        if spec.setdefault("priority", priority_class.value) != priority_class.value:
            why = (
                f"priority set in the pod group ({spec['priority']}) must match the priority computed "
                f"({priority_class.value}) based on the priority class set in the spec"
            )
            raise forbidden(write.resource.group, write.resource.plural, write.name, why)
        if priority_class.name:
            spec["priorityClassName"] = priority_class.name

    def _class_of(self, write: Write, name: str) -> PriorityClass:
        classes = self._classes.get(write.api.store)
        if not name:
            return classes.default
        priority_class = classes.by_name.get(name)
        if priority_class is None:
            why = f"no PriorityClass with name {name} was found"
            raise forbidden(write.resource.group, write.resource.plural, write.name, why)
        return priority_class

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        """Reject a second default class."""
        if write.resource.storage != _CLASSES or not obj.get("globalDefault"):
            return
        default = self._classes.get(write.api.store).default.name
        if default and (old is None or default != write.name):
            why = f"PriorityClass {default} is already marked as default. Only one default can exist"
            raise forbidden("scheduling.k8s.io", "priorityclasses", write.name, why)
