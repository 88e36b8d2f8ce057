"""What is in a new cluster."""

from __future__ import annotations

from mooring.embedded.objects import Tree
from mooring.embedded.verbs.api import Api, User
from mooring.embedded.verbs.creating import create
from mooring.embedded.verbs.options import DEFAULT_WRITE
from mooring.embedded.verbs.write import Write

_SYSTEM = User("system:apiserver", ("system:masters",))


def _namespaces() -> list[tuple[str, str, str, Tree]]:
    names = ("default", "kube-node-lease", "kube-public", "kube-system")
    return [("", "namespaces", "", {"metadata": {"name": name}}) for name in names]


def _priority_classes() -> list[tuple[str, str, str, Tree]]:
    described = (
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node "
            "if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    )
    return [
        (
            "scheduling.k8s.io",
            "priorityclasses",
            "",
            {
                "metadata": {"name": name},
                "value": value,
                "description": text,
                "preemptionPolicy": "PreemptLowerPriority",
            },
        )
        for name, value, text in described
    ]


def bootstrap(api: Api) -> None:
    """Create what every cluster has; what is there already stays as it is."""
    for group, plural, namespace, obj in _namespaces() + _priority_classes():
        resource = api.registry.find(group, "v1", plural)
        assert resource is not None
        if api.record(resource.storage, obj["metadata"]["name"], namespace) is None:
            create(Write(api, resource, namespace, "", _SYSTEM, DEFAULT_WRITE, "CREATE"), obj)
