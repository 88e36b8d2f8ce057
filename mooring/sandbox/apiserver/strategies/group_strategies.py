"""Strategies of Workloads and PodGroups: fields of features that are off are dropped."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from mooring.sandbox.apiserver.context.strategy import Strategy
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.objects import Tree

_GATED: Final = {
    "schedulingConstraints": "TopologyAwareWorkloadScheduling",
    "resourceClaims": "DRAWorkloadResourceClaims",
    "disruptionMode": "WorkloadAwarePreemption",
    "priorityClassName": "WorkloadAwarePreemption",
    "priority": "WorkloadAwarePreemption",
}


class PodGroupStrategy(Strategy):
    def prepare_create(self, write: Write, obj: Tree) -> None:
        super().prepare_create(write, obj)
        _drop(obj["spec"], (), write.api.features)
        self.default(obj)  # as kube-apiserver does when it reads the object back

    def prepare_update(self, write: Write, obj: Tree, old: Tree) -> None:
        super().prepare_update(write, obj, old)
        _drop(obj["spec"], old["spec"], write.api.features)


class WorkloadStrategy(Strategy):
    def prepare_create(self, write: Write, obj: Tree) -> None:
        super().prepare_create(write, obj)
        for template in obj["spec"].get("podGroupTemplates") or ():
            _drop(template, (), write.api.features)

    def prepare_update(self, write: Write, obj: Tree, old: Tree) -> None:
        super().prepare_update(write, obj, old)
        used = {name for template in old["spec"].get("podGroupTemplates") or () for name in template}
        for template in obj["spec"].get("podGroupTemplates") or ():
            _drop(template, used, write.api.features)


def _drop(spec: Tree, used: Collection[str], features: Collection[str]) -> None:
    """Drop the fields whose feature is off, unless they are in use already."""
    for name, feature in _GATED.items():
        if feature not in features and name not in used:
            spec.pop(name, None)
