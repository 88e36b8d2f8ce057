"""Which kind has which warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.warnings.services import service_warnings
from mooring.sandbox.apiserver.validation.warnings.storage import (
    claim_warnings,
    storage_class_warnings,
    volume_warnings,
)
from mooring.sandbox.apiserver.validation.warnings.texts import selected_labels
from mooring.sandbox.apiserver.validation.warnings.workloads import (
    Warn,
    controller_warnings,
    cron_job_warnings,
    daemon_set_warnings,
    job_warnings,
    pod_template_warnings,
    pod_warnings,
    stateful_set_warnings,
)

_INGRESS_CLASS: Final = "kubernetes.io/ingress.class"
_MOUNTABLE: Final = "kubernetes.io/enforce-mountable-secrets"


def _always(warn: Callable[[Tree], Iterator[str]]) -> Warn:
    """Warnings that do not depend on the old object."""
    return lambda obj, old: warn(obj)


def _annotations(obj: Tree | None) -> Tree:
    annotations: Tree = {} if obj is None else obj["metadata"].get("annotations") or {}
    return annotations


def _ingress(obj: Tree, old: Tree | None) -> Iterator[str]:
    class_name = (obj.get("spec") or {}).get("ingressClassName")
    if old is None and class_name is None and _INGRESS_CLASS in _annotations(obj):
        yield f"annotation \"{_INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"


def _service_account(obj: Tree, old: Tree | None) -> Iterator[str]:
    if _MOUNTABLE in _annotations(obj) and _MOUNTABLE not in _annotations(old):
        yield (
            f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; "
            "prefer separate namespaces to isolate access to mounted secrets"
        )


def _node(obj: Tree, old: Tree | None) -> Iterator[str]:
    spec = obj.get("spec") or {}
    if spec.get("configSource") is not None:
        yield "spec.configSource: the feature is removed"
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"


def _runtime_class(obj: Tree, old: Tree | None) -> Iterator[str]:
    selector = (obj.get("scheduling") or {}).get("nodeSelector")
    yield from selected_labels("scheduling.nodeSelector", selector, by_key=False)


WARNINGS: Final[dict[str, Warn]] = {
    "cronjobs.batch": cron_job_warnings,
    "daemonsets.apps": daemon_set_warnings,
    "deployments.apps": controller_warnings,
    "ingresses.networking.k8s.io": _ingress,
    "jobs.batch": job_warnings,
    "nodes": _node,
    "persistentvolumeclaims": _always(claim_warnings),
    "persistentvolumes": _always(volume_warnings),
    "pods": pod_warnings,
    "podtemplates": pod_template_warnings,
    "replicasets.apps": controller_warnings,
    "replicationcontrollers": controller_warnings,
    "runtimeclasses.node.k8s.io": _runtime_class,
    "serviceaccounts": _service_account,
    "services": _always(service_warnings),
    "statefulsets.apps": stateful_set_warnings,
    "storageclasses.storage.k8s.io": _always(storage_class_warnings),
}
