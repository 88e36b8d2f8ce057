"""The admission plugins, in the order in which they run."""

from __future__ import annotations

from collections.abc import Collection

from mooring.sandbox.apiserver.admission.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from mooring.sandbox.apiserver.admission.claim_resize import PersistentVolumeClaimResize
from mooring.sandbox.apiserver.admission.default_ingress_class import DefaultIngressClass
from mooring.sandbox.apiserver.admission.default_storage_class import DefaultStorageClass
from mooring.sandbox.apiserver.admission.default_toleration_seconds import DefaultTolerationSeconds
from mooring.sandbox.apiserver.admission.escalation import Escalation
from mooring.sandbox.apiserver.admission.job_validation import JobValidation
from mooring.sandbox.apiserver.admission.limit_ranger import LimitRanger
from mooring.sandbox.apiserver.admission.mutating_policy import MutatingAdmissionPolicy
from mooring.sandbox.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from mooring.sandbox.apiserver.admission.pod_groups import PodGroupProtection, PodGroupWorkloadExists
from mooring.sandbox.apiserver.admission.pod_resize import PodResizeValidator
from mooring.sandbox.apiserver.admission.pod_security import PodSecurity
from mooring.sandbox.apiserver.admission.pod_topology_labels import PodTopologyLabels
from mooring.sandbox.apiserver.admission.priority import Priority
from mooring.sandbox.apiserver.admission.quota_admission import ResourceQuotas
from mooring.sandbox.apiserver.admission.runtime_class import RuntimeClass
from mooring.sandbox.apiserver.admission.service_account import ServiceAccount
from mooring.sandbox.apiserver.admission.storage_object_in_use_protection import StorageObjectInUseProtection
from mooring.sandbox.apiserver.admission.taint_nodes_by_condition import TaintNodesByCondition
from mooring.sandbox.apiserver.admission.validating_policy import ValidatingAdmissionPolicy
from mooring.sandbox.apiserver.admission.webhooks import MutatingAdmissionWebhook, ValidatingAdmissionWebhook
from mooring.sandbox.apiserver.context.admission import Admission, AdmissionPlugin

PLUGINS: tuple[type[AdmissionPlugin], ...] = (
    NamespaceLifecycle,
    LimitRanger,
    ServiceAccount,
    TaintNodesByCondition,
    PodSecurity,
    Priority,
    DefaultTolerationSeconds,
    DefaultStorageClass,
    StorageObjectInUseProtection,
    PodGroupProtection,
    PodGroupWorkloadExists,
    JobValidation,
    PersistentVolumeClaimResize,
    RuntimeClass,
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    DefaultIngressClass,
    PodTopologyLabels,
    PodResizeValidator,
    MutatingAdmissionPolicy,
    MutatingAdmissionWebhook,
    Escalation,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionWebhook,
    ResourceQuotas,  # last, so that objects that other plugins reject are not counted
)


def default_admission(disabled: Collection[str] = ()) -> Admission:
    """The plugins but for those that are disabled by name, as kube-apiserver's flag does it."""
    return Admission([plugin() for plugin in PLUGINS if plugin.__name__ not in disabled])
