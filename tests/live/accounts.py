"""ServiceAccounts with the roles of deploy/, or with some of what they allow taken away."""

from __future__ import annotations

from pathlib import Path

from tests.live.cluster import Object
from tests.live.scene import Scene

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
ROLES = ("mooring", "mooring-volume-binding")
NAMESPACE = "mooring"  # that of the lease


class Account:
    """A ServiceAccount of a scene. `without` are verbs on resources that it is not allowed: "list pods"."""

    def __init__(self, scene: Scene, name: str, *without: str) -> None:
        self._scene = scene
        self.name = f"{scene.namespace}-{name}"
        self.user = f"system:serviceaccount:{scene.namespace}:{name}"
        self._subjects = [{"kind": "ServiceAccount", "name": name, "namespace": scene.namespace}]
        accounts = f"/api/v1/namespaces/{scene.namespace}/serviceaccounts"
        scene.create(accounts, {"metadata": {"name": name}})
        role = {"metadata": {"name": self.name}, "rules": self._rules(without)}
        scene.create(f"{RBAC}/clusterroles", role)
        self._bind(f"{RBAC}/clusterrolebindings", "ClusterRole", self.name)
        self._bind(self._lease_bindings, "Role", "mooring-leader-election")
        self.kubeconfig: Path = scene.cluster.kubeconfig(token=scene.cluster.token(name, scene.namespace))

    @property
    def _lease_bindings(self) -> str:
        return f"{RBAC}/namespaces/{NAMESPACE}/rolebindings"

    def _bind(self, path: str, kind: str, role: str) -> None:
        reference = {"apiGroup": GROUP, "kind": kind, "name": role}
        body = {"metadata": {"name": self.name}, "roleRef": reference, "subjects": self._subjects}
        self._scene.create(path, body)

    def _rules(self, without: tuple[str, ...]) -> list[Object]:
        """One rule for each verb on each resource that is left."""
        roles = [self._scene.api.get(f"{RBAC}/clusterroles/{name}") for name in ROLES]
        return [
            {"apiGroups": rule["apiGroups"], "resources": [resource], "verbs": [verb]}
            for role in roles
            for rule in role["rules"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
            if f"{verb} {resource}" not in without
        ]

    def allow_all(self) -> None:
        """Give it what was taken away."""
        self._scene.api.patch(f"{RBAC}/clusterroles/{self.name}", {"rules": self._rules(())})

    def take_the_lease_away(self) -> None:
        """From now on it may not renew its lease, but everything else."""
        self._scene.api.delete(f"{self._lease_bindings}/{self.name}")
