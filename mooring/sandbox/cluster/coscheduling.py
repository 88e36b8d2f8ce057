"""The CustomResourceDefinition of scheduler-plugins' PodGroup, for clusters whose scheduler coschedules."""

from __future__ import annotations

from typing import Any

from mooring.api.kinds import COSCHEDULING_POD_GROUPS

_QUANTITY = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
    "x-kubernetes-int-or-string": True,
}


def _integer(description: str, **rules: int) -> dict[str, Any]:
    return {"type": "integer", "format": "int32", "description": description, **rules}


_SPEC = {
    "type": "object",
    "properties": {
        "minMember": _integer("Number of pods that must have a place for any of them to start.", minimum=1),
        "minResources": {
            "type": "object",
            "additionalProperties": _QUANTITY,
            "description": "Resources that must be free in the cluster before the group is tried.",
        },
        "scheduleTimeoutSeconds": _integer("Seconds to wait for places before that is reported."),
    },
}
_STATUS = {
    "type": "object",
    "properties": {
        "phase": {"type": "string", "description": "Pending, Scheduling, Running, Finished or Failed."},
        "occupiedBy": {"type": "string", "description": "The owners of the group's pods."},
        "running": _integer("Number of running pods."),
        "succeeded": _integer("Number of pods that succeeded."),
        "failed": _integer("Number of pods that failed."),
        "scheduleStartTime": {
            "type": "string",
            "format": "date-time",
            "description": "When scheduling of the group started.",
        },
    },
}
_COLUMNS = (
    ("Phase", "string", ".status.phase"),
    ("MinMember", "integer", ".spec.minMember"),
    ("Running", "integer", ".status.running"),
    ("Succeeded", "integer", ".status.succeeded"),
    ("Failed", "integer", ".status.failed"),
    ("Age", "date", ".metadata.creationTimestamp"),
)
_VERSION = {
    "name": COSCHEDULING_POD_GROUPS.version,
    "served": True,
    "storage": True,
    "subresources": {"status": {}},
    "additionalPrinterColumns": [
        {"name": name, "type": kind, "jsonPath": path} for name, kind, path in _COLUMNS
    ],
    "schema": {
        "openAPIV3Schema": {
            "type": "object",
            "description": "Pods that are started together.",
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": _SPEC,
                "status": _STATUS,
            },
        }
    },
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": COSCHEDULING_POD_GROUPS.name,
        "annotations": {
            "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"
        },
    },
    "spec": {
        "group": COSCHEDULING_POD_GROUPS.group,
        "scope": "Namespaced",
        "names": {
            "kind": "PodGroup",
            "listKind": "PodGroupList",
            "plural": "podgroups",
            "singular": "podgroup",
            "shortNames": ["pg", "pgs"],
        },
        "versions": [_VERSION],
    },
}
