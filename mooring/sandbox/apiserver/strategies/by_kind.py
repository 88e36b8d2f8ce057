"""Which kind has which strategy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec

from mooring.sandbox.apiserver.context.strategy import Strategy
from mooring.sandbox.apiserver.defaults.by_kind import DEFAULTS
from mooring.sandbox.apiserver.kinds.sieve import sieve_of
from mooring.sandbox.apiserver.kinds.types import ObjectType
from mooring.sandbox.apiserver.kinds.wire import Zero, zeros
from mooring.sandbox.apiserver.objects import Tree, encode_json
from mooring.sandbox.apiserver.strategies.builtin_traits import traits_of
from mooring.sandbox.apiserver.strategies.certificate_strategies import CertificateSigningRequestStrategy
from mooring.sandbox.apiserver.strategies.cluster_strategies import (
    EventStrategy,
    NamespaceStrategy,
    NodeStrategy,
    PriorityClassStrategy,
)
from mooring.sandbox.apiserver.strategies.device_strategies import (
    DeviceTaintRuleStrategy,
    ResourceClaimStrategy,
    ResourceClaimTemplateStrategy,
    ResourceSliceStrategy,
)
from mooring.sandbox.apiserver.strategies.group_strategies import PodGroupStrategy, WorkloadStrategy
from mooring.sandbox.apiserver.strategies.pod_strategy import PodStrategy
from mooring.sandbox.apiserver.strategies.service_strategy import ServiceStrategy
from mooring.sandbox.apiserver.strategies.volume_strategies import ClaimStrategy, VolumeStrategy
from mooring.sandbox.apiserver.strategies.workload_strategies import (
    DaemonSetStrategy,
    DeploymentStrategy,
    JobStrategy,
    PodTemplateStrategy,
)
from mooring.sandbox.apiserver.validation.rules import RULES
from mooring.sandbox.apiserver.validation.warnings.by_kind import WARNINGS

STRATEGIES: dict[str, type[Strategy]] = {
    "certificatesigningrequests.certificates.k8s.io": CertificateSigningRequestStrategy,
    "cronjobs.batch": PodTemplateStrategy,
    "daemonsets.apps": DaemonSetStrategy,
    "deployments.apps": DeploymentStrategy,
    "devicetaintrules.resource.k8s.io": DeviceTaintRuleStrategy,
    "events": EventStrategy,
    "jobs.batch": JobStrategy,
    "namespaces": NamespaceStrategy,
    "nodes": NodeStrategy,
    "persistentvolumeclaims": ClaimStrategy,
    "persistentvolumes": VolumeStrategy,
    "podgroups.scheduling.k8s.io": PodGroupStrategy,
    "pods": PodStrategy,
    "priorityclasses.scheduling.k8s.io": PriorityClassStrategy,
    "replicasets.apps": PodTemplateStrategy,
    "replicationcontrollers": PodTemplateStrategy,
    "resourceclaims.resource.k8s.io": ResourceClaimStrategy,
    "resourceclaimtemplates.resource.k8s.io": ResourceClaimTemplateStrategy,
    "resourceslices.resource.k8s.io": ResourceSliceStrategy,
    "services": ServiceStrategy,
    "statefulsets.apps": PodTemplateStrategy,
    "workloads.scheduling.k8s.io": WorkloadStrategy,
}


def strategy_of(storage: str, type: ObjectType, *, status: bool) -> Strategy:
    """Return the strategy of a built-in kind, by its table."""
    strategy = STRATEGIES.get(storage, Strategy)
    empty = _empty_status(type) if status else None
    return strategy(
        traits_of(storage, status=status),
        DEFAULTS.get(storage),
        RULES.get(storage),
        empty,
        WARNINGS.get(storage),
    )


def _empty_status(type: ObjectType) -> Callable[[], Tree] | None:
    """Return the status of a new object, as Go writes an empty one; None for kinds that write none."""
    field, marks = type.fields.get("status"), zeros(f"{type.module}.{type.name}")
    if field is None or not isinstance(field.type, ObjectType) or marks is None:
        return None
    if marks.get("status", Zero.DISTINCT) is Zero.DISTINCT:
        return None
    status = field.type

    def empty() -> Tree:
        tree: Tree = msgspec.json.decode(_nothing(status))
        return tree

    return empty


@cache
def _nothing(type: ObjectType) -> bytes:
    return encode_json(sieve_of(type).sift({}))
