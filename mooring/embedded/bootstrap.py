"""What is in a new cluster."""

from __future__ import annotations

from typing import Final

from mooring.embedded.authorization.default_roles import default_roles
from mooring.embedded.authorization.rbac import GROUP
from mooring.embedded.kinds.codec import FieldValidation
from mooring.embedded.objects import Tree
from mooring.embedded.strategies.services import FIRST_ADDRESS
from mooring.embedded.validation.cluster import SYSTEM_CLASSES
from mooring.embedded.verbs.api import Api, User
from mooring.embedded.verbs.creating import create
from mooring.embedded.verbs.options import DEFAULT_WRITE
from mooring.embedded.verbs.write import Write

_SYSTEM: Final = User("system:apiserver", ("system:masters",))
_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_DESCRIPTIONS: Final = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node if "
        "necessary."
    ),
    "system-node-critical": ("Used for system critical pods that must not be moved from their current node."),
}


def bootstrap(api: Api) -> None:
    """Create what every cluster has; what is there already stays as it is."""
    for name in _NAMESPACES:
        _create(api, "", "namespaces", "", {"metadata": {"name": name}})
    for name, value in SYSTEM_CLASSES.items():
        body = {"metadata": {"name": name}, "value": value, "description": _DESCRIPTIONS[name]}
        _create(api, "scheduling.k8s.io", "priorityclasses", "", body)
    _create(api, "", "services", "default", _service())
    for role in default_roles():
        _create(api, GROUP, f"{role['kind'].lower()}s", role["metadata"].get("namespace", ""), role)


def _service() -> Tree:
    """The address under which pods find the API."""
    return {
        "metadata": {
            "name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": FIRST_ADDRESS,
            "ports": [{"name": "https", "port": 443, "targetPort": 6443}],
        },
    }


def _create(api: Api, group: str, plural: str, namespace: str, body: Tree) -> None:
    resource = api.registry.find(group, "v1", plural)
    assert resource is not None
    if api.record(resource.storage, body["metadata"]["name"], namespace) is None:
        obj = resource.codec.sift(body, FieldValidation.STRICT).tree
        create(Write(api, resource, namespace, "", _SYSTEM, DEFAULT_WRITE, "CREATE"), obj)
