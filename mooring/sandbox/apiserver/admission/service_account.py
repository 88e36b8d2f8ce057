"""ServiceAccount: set the account of a pod, and mount the account's token into its containers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import forbidden
from mooring.sandbox.apiserver.mirror import Mirror
from mooring.sandbox.apiserver.objects import Tree, dig

_DEFAULT: Final = "default"
_MIRROR_POD: Final = "kubernetes.io/config.mirror"
_VOLUME_PREFIX: Final = "kube-api-access-"
_MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_EXPIRATION_SECONDS: Final = 3607  # as kube-apiserver: an hour, recognisable as set by this plugin
_READABLE: Final = 0o644


def _read(trees: Iterable[Tree]) -> dict[tuple[str, str], Tree]:
    return {(tree["metadata"]["namespace"], tree["metadata"]["name"]): tree for tree in trees}


class ServiceAccount(AdmissionPlugin):
    storages = frozenset({"pods"})

    def __init__(self) -> None:
        self._accounts = Mirror("serviceaccounts", _read)

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        spec = obj["spec"]
        if _MIRROR_POD in (obj["metadata"].get("annotations") or {}):
            _check_mirror_pod(write, spec)
            return
        name = spec.get("serviceAccountName") or _DEFAULT
        account = self._find(write, name)
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        automount = spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken"))
        if automount is not False:
            _mount_token(write, spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]

    def _find(self, write: Write, name: str) -> Tree:
        account = self._accounts.get(write.api.store).get((write.namespace, name))
        if account is not None:
            return account
        if name == _DEFAULT:
            return {}  # kube-apiserver waits for the controller that creates it; without settings, as here
        account_name = f"{write.namespace}/{name}"
        why = f'error looking up service account {account_name}: serviceaccount "{name}" not found'
        raise forbidden("", "pods", write.name, why)


def _check_mirror_pod(write: Write, spec: Tree) -> None:
    if spec.get("serviceAccountName"):
        raise forbidden("", "pods", write.name, "a mirror pod may not reference service accounts")
    for volume in spec.get("volumes") or ():
        if any("serviceAccountToken" in source for source in dig(volume, "projected", "sources") or ()):
            why = "a mirror pod may not use ServiceAccountToken volume projections"
            raise forbidden("", "pods", write.name, why)


def _mount_token(write: Write, spec: Tree) -> None:
    """Mount the token into every container that mounts nothing at its path."""
    containers = [
        container
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        if all(mount.get("mountPath") != _MOUNT_PATH for mount in container.get("volumeMounts") or ())
    ]
    if not containers:
        return
    volumes = spec.get("volumes") or []
    present = (one["name"] for one in volumes if one.get("name", "").startswith(_VOLUME_PREFIX))
    name = next(present, None)
    if name is None:
        name = write.api.random_name(_VOLUME_PREFIX)
        spec["volumes"] = [*volumes, {"name": name, "projected": _token_volume()}]
    mount = {"name": name, "readOnly": True, "mountPath": _MOUNT_PATH}
    for container in containers:
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def _token_volume() -> Tree:
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _EXPIRATION_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
        ],
        "defaultMode": _READABLE,
    }
