"""Which admission plugins run, in which order."""

from __future__ import annotations

from mooring.embedded.admission.chain import Admission, AdmissionPlugin
from mooring.embedded.admission.default_storage_class import DefaultStorageClass
from mooring.embedded.admission.default_toleration_seconds import DefaultTolerationSeconds
from mooring.embedded.admission.escalation import Escalation
from mooring.embedded.admission.limit_ranger import LimitRanger
from mooring.embedded.admission.namespace_lifecycle import NamespaceLifecycle
from mooring.embedded.admission.pod_topology_labels import PodTopologyLabels
from mooring.embedded.admission.priority import Priority
from mooring.embedded.admission.resource_quota import ResourceQuotas
from mooring.embedded.admission.runtime_class import RuntimeClass
from mooring.embedded.admission.storage_object_in_use_protection import StorageObjectInUseProtection
from mooring.embedded.admission.taint_nodes_by_condition import TaintNodesByCondition

PLUGINS: tuple[type[AdmissionPlugin], ...] = (
    NamespaceLifecycle,
    LimitRanger,
    TaintNodesByCondition,
    Priority,
    DefaultTolerationSeconds,
    DefaultStorageClass,
    StorageObjectInUseProtection,
    RuntimeClass,
    PodTopologyLabels,
    Escalation,
    ResourceQuotas,  # last: what others refuse is not to count
)


def default_admission() -> Admission:
    return Admission([plugin() for plugin in PLUGINS])
