"""Short names and categories of resources, which lightkube-models lacks."""

from __future__ import annotations

from typing import Final

SHORT_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "certificatesigningrequests": ("csr",),
    "componentstatuses": ("cs",),
    "configmaps": ("cm",),
    "cronjobs": ("cj",),
    "customresourcedefinitions": ("crd", "crds"),
    "daemonsets": ("ds",),
    "deployments": ("deploy",),
    "endpoints": ("ep",),
    "events": ("ev",),
    "horizontalpodautoscalers": ("hpa",),
    "ingresses": ("ing",),
    "ipaddresses": ("ip",),
    "limitranges": ("limits",),
    "namespaces": ("ns",),
    "networkpolicies": ("netpol",),
    "nodes": ("no",),
    "persistentvolumeclaims": ("pvc",),
    "persistentvolumes": ("pv",),
    "poddisruptionbudgets": ("pdb",),
    "pods": ("po",),
    "priorityclasses": ("pc",),
    "replicasets": ("rs",),
    "replicationcontrollers": ("rc",),
    "resourcequotas": ("quota",),
    "serviceaccounts": ("sa",),
    "services": ("svc",),
    "statefulsets": ("sts",),
    "storageclasses": ("sc",),
    "volumeattributesclasses": ("vac",),
}

_IN_ALL: Final = frozenset(
    {
        "cronjobs", "daemonsets", "deployments", "horizontalpodautoscalers", "jobs", "pods", "replicasets",
        "replicationcontrollers", "services", "statefulsets",
    }
)  # fmt: skip
_EXTENDING: Final = frozenset(
    {"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io"}
)


def categories(group: str, plural: str) -> tuple[str, ...]:
    """Return the categories of a resource, such as `all`."""
    if group in _EXTENDING:
        return ("api-extensions",)
    return ("all",) if plural in _IN_ALL else ()
