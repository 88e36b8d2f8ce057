"""What every namespace has: an account for pods that name none, and the API server's certificate."""

from __future__ import annotations

from typing import Any, ClassVar

from mooring.api.kinds import NAMESPACES, ApiResource
from mooring.api.meta import KubeObject
from mooring.api.workloads import Namespace
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller

SERVICE_ACCOUNTS = ApiResource("", "v1", "serviceaccounts", True, KubeObject)
CONFIG_MAPS = ApiResource("", "v1", "configmaps", True, KubeObject)  # their content can be large


class InEveryNamespace(Controller):
    """Creates one object in every namespace, and again if it is deleted."""

    resource: ClassVar[ApiResource[KubeObject]]

    def __init__(self, context: Context, body: dict[str, Any]) -> None:
        super().__init__(context)
        self._body = body
        self._name: str = body["metadata"]["name"]
        self._namespaces = self.cache.follow(NAMESPACES)
        self._made = self.cache.follow(self.resource)
        self._namespaces.subscribe(self._namespace_changed)
        self._made.subscribe(self._changed)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None:
            self.enqueue(new.name)

    def _changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        changed = old if new is None else new
        if changed is not None and changed.name == self._name:
            self.enqueue(changed.namespace)

    async def sync(self, key: str) -> None:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return
        if self._made.get(f"{key}/{self._name}") is not None:
            await self.restore(key)
            return
        try:
            await self.create(self._made, self._body, key)
        except ApiError as refusal:
            if not (refusal.conflict or refusal.not_found or refusal.code == 403):
                raise  # else it is there already, or the namespace is going

    async def restore(self, namespace: str) -> None:
        """The object is there; see to what it holds."""


class ServiceAccounts(InEveryNamespace):
    """The account of pods that name none."""

    name = "serviceaccount-controller"
    resource = SERVICE_ACCOUNTS

    def __init__(self, context: Context) -> None:
        metadata = {"name": "default"}
        super().__init__(context, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


class RootCertificates(InEveryNamespace):
    """What pods are to trust an API server by."""

    name = "root-ca-certificate-publisher"
    resource = CONFIG_MAPS
    DESCRIPTION = (
        "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints "
        "such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across "
        "distributions of Kubernetes clusters."
    )

    def __init__(self, context: Context, authority: str) -> None:
        metadata = {
            "name": "kube-root-ca.crt",
            "annotations": {"kubernetes.io/description": self.DESCRIPTION},
        }
        self._content = {"data": {"ca.crt": authority}}
        super().__init__(
            context, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **self._content}
        )

    async def restore(self, namespace: str) -> None:
        # A patch that changes nothing makes no new version, so that this comes to an end.
        await self.cluster.patch(CONFIG_MAPS, self._name, self._content, namespace)
