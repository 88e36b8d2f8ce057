"""A pod as plugins see it, and its shape: what all its replicas share."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from mooring.api import resources, times
from mooring.api.errors import ObjectError
from mooring.api.meta import ObjectMeta, ResourceList
from mooring.api.objects import ContainerStatus, Pod, PodSpec, PodStatus, Volume
from mooring.framework.affinity import AffinityTerm, terms_of

_encode = msgspec.msgpack.Encoder().encode


SCHEDULING_GROUP = "scheduling.k8s.io"
COSCHEDULING_GROUP = "scheduling.x-k8s.io"


class GroupKey(NamedTuple):
    """The PodGroup that a pod is scheduled with, Kubernetes' own or that of Coscheduling."""

    namespace: str
    name: str
    api_group: str = SCHEDULING_GROUP

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Resources(dict[str, int]):
    """Amounts by resource name (cpu in milli); what is not there is 0."""

    __slots__ = ()

    def __missing__(self, name: str) -> int:
        return 0


class Shape:
    """The scheduling-relevant content of a pod, compiled once for all pods that share it.

    Amounts differ by who asks: `requests` is what the pod must find free, `score_requests` what scoring
    assumes (defaults for containers that request nothing), `used` and `nonzero_used` what it counts for
    once it is on a node, where resized containers count with their actual resources.
    """

    __slots__ = (
        "__weakref__",
        "affinity_terms",
        "claims",
        "controller",
        "derived",
        "host_ports",
        "labels",
        "namespace",
        "nonzero_used",
        "priority",
        "requests",
        "score_requests",
        "spec",
        "used",
    )

    def __init__(self, pod: Pod) -> None:
        self.namespace = pod.metadata.namespace
        self.labels: Mapping[str, str] = pod.metadata.labels
        self.controller = pod.metadata.controller()
        self.spec: PodSpec = pod.spec
        self.priority = pod.priority
        self.requests = Resources(
            resources.pod_requests(pod, use_status=False, pod_level=True, non_missing=False)
        )
        self.score_requests = Resources(
            resources.pod_requests(pod, use_status=False, pod_level=False, non_missing=True)
        )
        self.used = Resources(resources.pod_requests(pod, use_status=True, pod_level=True, non_missing=False))
        self.nonzero_used: tuple[int, int] = resources.nonzero_requests(pod)
        self.affinity_terms: tuple[AffinityTerm, ...] = terms_of(pod)
        self.claims = tuple(
            f"{self.namespace}/{volume.persistent_volume_claim.claim_name}"
            for volume in pod.spec.volumes
            if volume.persistent_volume_claim is not None
        )
        self.host_ports: tuple[tuple[str, str, int], ...] = resources.host_ports(pod)
        self.derived: dict[Any, Any] = {}  # values that plugins derive from the shape alone

    def takes_as_much_as(self, other: Shape) -> bool:
        """Whether nodes count the same for pods of both shapes, but for what their labels match."""
        return self is other or (
            self.used == other.used
            and self.nonzero_used == other.nonzero_used
            and self.affinity_terms == other.affinity_terms
            and self.claims == other.claims
        )

    @staticmethod
    def key_of(pod: Pod) -> bytes:
        """Equal for pods that no default plugin can distinguish, whatever their names and nodes."""
        spec, meta = pod.spec, pod.metadata
        volumes = relevant_volumes(spec.volumes)
        claims_by_name = any(volume.ephemeral is not None for volume in volumes)
        return _encode(
            (
                meta.namespace,
                meta.labels,
                meta.controller() if meta.owner_references else None,
                spec.containers,
                spec.init_containers,
                volumes,
                # A generic ephemeral volume's claim is named after the pod.
                (meta.name, meta.uid) if claims_by_name else None,
                spec.node_selector,
                spec.affinity,
                spec.tolerations,
                spec.topology_spread_constraints,
                spec.priority,
                spec.preemption_policy,
                spec.overhead,
                spec.resources,
                (spec.host_network, spec.host_users),
                spec.resource_claims,
                spec.scheduler_name,
                _resize_status(pod),
            )
        )


def relevant_volumes(volumes: list[Volume]) -> list[Volume]:
    """Return the volumes that any plugin looks at: not the one with its own name that each pod has for the
    token of its ServiceAccount."""
    return [volume for volume in volumes if volume != Volume(name=volume.name)]


def _resize_status(pod: Pod) -> Any:
    """Return the part of the status that changes the resources of the pod; None for nearly every pod.
    Kubelets report the resources of every container, which mostly equal its requests."""
    spec, status = pod.spec, pod.status
    if not (status.container_statuses or status.init_container_statuses or status.resources):
        return None
    requests_by_name = {
        each.name: each.resources.requests for each in (*spec.containers, *spec.init_containers)
    }
    sized = [
        each
        for each in (*status.container_statuses, *status.init_container_statuses)
        if each.resources is not None and not _matches_requests(each, requests_by_name.get(each.name))
    ]
    if not sized and status.resources is None:
        return None
    resizing = [(c.reason, c.status) for c in status.conditions if c.type == "PodResizePending"]
    return sized, status.resources, status.allocated_resources, resizing


def _matches_requests(status: ContainerStatus, requests: ResourceList | None) -> bool:
    actual = status.resources
    return actual is not None and actual.requests == requests and status.allocated_resources in ({}, requests)


class Shapes:
    """The shapes in use, so that equal pods find the same one; others are forgotten."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._by_key)

    def of(self, pod: Pod) -> Shape:
        try:
            key = Shape.key_of(pod)
        except OverflowError:
            raise ObjectError("Pod", pod.key, "spec: found an integer of more than 64 bits") from None
        shape = self._by_key.get(key)
        if shape is None:
            shape = self._by_key[key] = Shape(pod)
        return shape


class PodInfo(msgspec.Struct, eq=False):
    """A pod with its shape; what filter, score and the other extension points receive."""

    pod: Pod
    shape: Shape
    uid: str
    name: str
    namespace: str
    key: str
    priority: int
    terminating: bool
    scheduler_name: str
    node_name: str  # for a pod just placed: the node it is assumed on
    group: GroupKey | None = None  # where group scheduling is enabled
    _start_time: float | None = None

    @classmethod
    def of(cls, pod: Pod, shape: Shape) -> PodInfo:
        meta, spec = pod.metadata, pod.spec
        return cls(
            pod,
            shape,
            meta.uid,
            meta.name,
            meta.namespace,
            f"{meta.namespace}/{meta.name}",
            shape.priority,
            meta.deletion_timestamp is not None,
            spec.scheduler_name,
            spec.node_name,
        )

    @property
    def metadata(self) -> ObjectMeta:
        return self.pod.metadata

    @property
    def spec(self) -> PodSpec:
        return self.pod.spec

    @property
    def status(self) -> PodStatus:
        return self.pod.status

    @property
    def labels(self) -> Mapping[str, str]:
        return self.pod.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.pod.metadata.annotations

    @property
    def requests(self) -> Resources:
        return self.shape.requests

    def placed_on(self, node_name: str) -> PodInfo:
        """Return a copy of the pod with this node name."""
        return msgspec.structs.replace(self, node_name=node_name)

    @property
    def start_time(self) -> float:
        """When the pod started; later than any time for one that has not.

        kube-scheduler takes the present for a missing start time, which comes to the same and would make
        the order of pods depend on when they are looked at.
        """
        if self._start_time is None:
            text = self.pod.status.start_time
            self._start_time = inf if text is None else times.parse_time(text)
        return self._start_time

    def __repr__(self) -> str:
        return f"<PodInfo {self.key}>"
