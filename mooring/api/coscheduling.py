"""PodGroup scheduling.x-k8s.io/v1alpha1: the groups of scheduler-plugins' Coscheduling."""

from __future__ import annotations

import msgspec

from mooring.api.meta import KubeObject, ResourceList, Struct

POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


class PodGroupSpec(Struct):
    min_member: int = 0
    min_resources: ResourceList = {}
    schedule_timeout_seconds: int | None = None


class PodGroupStatus(Struct):
    phase: str = ""
    occupied_by: str = ""
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start_time: str | None = None


class PodGroup(KubeObject):
    """Pods of its namespace that name it in a label start together, at least minMember of them."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)

    @property
    def min_count(self) -> int:
        """How many members must be scheduled for any to start."""
        return self.spec.min_member

    topology_key = ""  # what the other PodGroup has and this one does not
    priority = 0
    disrupted_as_one = False
