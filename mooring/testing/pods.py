"""make_pod: a Pod as an API server would hand it out, with only what a test cares about spelled out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from mooring.api.meta import ObjectMeta, OwnerReference, Quantity
from mooring.api.objects import (
    Affinity,
    Container,
    ContainerPort,
    NodeAffinity,
    NodeSelector,
    PersistentVolumeClaimSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodResourceClaim,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    WeightedPodAffinityTerm,
)
from mooring.api.times import format_time
from mooring.testing.clock import START
from mooring.testing.nodes import HOSTNAME
from mooring.testing.selectors import Selecting, label_selector, node_term, toleration
from mooring.testing.served import each_of, served

Preferred = Sequence[tuple[int, PodAffinityTerm]]


def affinity_term(
    selector: Selecting, topology_key: str = HOSTNAME, *, namespaces: Iterable[str] = ()
) -> PodAffinityTerm:
    """A term of pod (anti-)affinity: pods that the selector matches, in one domain of the key."""
    return PodAffinityTerm(
        topology_key=topology_key, label_selector=label_selector(selector), namespaces=list(namespaces)
    )


def spread_constraint(
    topology_key: str,
    selector: Selecting,
    *,
    max_skew: int = 1,
    when_unsatisfiable: str = "DoNotSchedule",
    min_domains: int | None = None,
) -> TopologySpreadConstraint:
    """A topology spread constraint over the pods that the selector matches."""
    return TopologySpreadConstraint(
        max_skew=max_skew,
        topology_key=topology_key,
        when_unsatisfiable=when_unsatisfiable,
        label_selector=label_selector(selector),
        min_domains=min_domains,
    )


def make_pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: str = "",
    # what it asks for
    requests: Mapping[str, Quantity] | None = None,
    limits: Mapping[str, Quantity] | None = None,
    image: str = "app:1",
    host_ports: Iterable[int] = (),
    claims: str | Iterable[str] = (),
    volumes: Iterable[Volume] = (),
    resource_claims: str | Iterable[str] = (),
    overhead: Mapping[str, Quantity] | None = None,
    # where it may go
    node_selector: Mapping[str, str] | None = None,
    node_affinity: str | Iterable[str] = (),
    preferred_node_affinity: Mapping[str, int] | None = None,
    pod_affinity: Sequence[PodAffinityTerm] = (),
    preferred_pod_affinity: Preferred = (),
    pod_anti_affinity: Sequence[PodAffinityTerm] = (),
    preferred_pod_anti_affinity: Preferred = (),
    spread: Sequence[TopologySpreadConstraint] = (),
    tolerations: str | Iterable[str | Toleration] = (),
    # how it is scheduled
    priority: int = 0,
    preemption_policy: str = "PreemptLowerPriority",
    scheduler_name: str = "default-scheduler",
    scheduling_gates: str | Iterable[str] = (),
    # what has become of it
    node_name: str = "",
    nominated_node: str = "",
    phase: str = "",
    terminating: bool = False,
    created: float = START,
    started: float | None = None,
) -> Pod:
    """Return a pod with one container, and with the defaults of an API server.

    Its UID follows from namespace and name, so that runs repeat; give `uid` to a pod that is created again
    under the same name. `owner` is the controller as kubectl names it ("ReplicaSet/web"). `node_affinity`
    holds the required terms, any of which is enough, and `preferred_node_affinity` weights by term, both in
    the notation of `kubectl get -l` ("disk in (ssd,nvme)"). `tolerations` are written like taints
    ("dedicated=gpu:NoSchedule", or "dedicated:NoSchedule" for any value). `claims` are the names of
    PersistentVolumeClaims, `resource_claims` of ResourceClaims. A pod with `node_name` is bound, and running
    unless `phase` says otherwise.
    """
    status = PodStatus(phase=phase, nominated_node_name=nominated_node)
    if node_name:
        running = format_time(created if started is None else started)
        status = replace(status, phase=phase or "Running", start_time=running)
    pod = Pod(
        api_version="v1",
        kind="Pod",
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid,
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
            owner_references=_owners(owner),
            creation_timestamp=format_time(created),
            deletion_timestamp=format_time(created + 1) if terminating else None,
        ),
        spec=PodSpec(
            node_name=node_name,
            scheduler_name=scheduler_name,
            containers=[_container(image, requests or {}, limits or {}, host_ports)],
            resource_claims=[
                PodResourceClaim(name=each, resource_claim_name=each) for each in each_of(resource_claims)
            ],
            volumes=[*map(_claimed, each_of(claims)), *volumes],
            node_selector=None if node_selector is None else dict(node_selector),
            affinity=_affinity(
                _node_affinity(each_of(node_affinity), preferred_node_affinity or {}),
                _pod_affinity(pod_affinity, preferred_pod_affinity),
                _pod_affinity(pod_anti_affinity, preferred_pod_anti_affinity),
            ),
            tolerations=[toleration(each) for each in each_of(tolerations)],
            topology_spread_constraints=list(spread),
            priority=priority,
            preemption_policy=preemption_policy,
            overhead=dict(overhead or {}),
            scheduling_gates=[PodSchedulingGate(name=gate) for gate in each_of(scheduling_gates)],
        ),
        status=status,
    )
    return served(pod, namespaced=True)


def _container(
    image: str, requests: Mapping[str, Quantity], limits: Mapping[str, Quantity], host_ports: Iterable[int]
) -> Container:
    return Container(
        name="main",
        image=image,
        resources=ResourceRequirements(requests=dict(requests), limits=dict(limits)),
        ports=[ContainerPort(container_port=port, host_port=port) for port in host_ports],
    )


def _owners(owner: str) -> list[OwnerReference]:
    if not owner:
        return []
    kind, separator, name = owner.partition("/")
    if not separator or not name:
        raise ValueError(f'owner "{owner}": expected Kind/name, e.g. ReplicaSet/web')
    core = kind in ("Node", "ReplicationController")
    group = "v1" if core else "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    return [OwnerReference(api_version=group, kind=kind, name=name, uid=f"{kind}-{name}", controller=True)]


def _claimed(name: str) -> Volume:
    return Volume(name=name, persistent_volume_claim=PersistentVolumeClaimSource(claim_name=name))


def _affinity(
    node: NodeAffinity | None, pods: PodAffinity | None, against: PodAffinity | None
) -> Affinity | None:
    if node is None and pods is None and against is None:
        return None
    return Affinity(node_affinity=node, pod_affinity=pods, pod_anti_affinity=against)


def _node_affinity(required: Sequence[str], preferred: Mapping[str, int]) -> NodeAffinity | None:
    if not required and not preferred:
        return None
    return NodeAffinity(
        required=NodeSelector(node_selector_terms=[node_term(t) for t in required]) if required else None,
        preferred=[
            PreferredSchedulingTerm(weight=weight, preference=node_term(term))
            for term, weight in preferred.items()
        ],
    )


def _pod_affinity(required: Sequence[PodAffinityTerm], preferred: Preferred) -> PodAffinity | None:
    if not required and not preferred:
        return None
    return PodAffinity(
        required=list(required),
        preferred=[WeightedPodAffinityTerm(weight=weight, pod_affinity_term=t) for weight, t in preferred],
    )
