"""Finding credentials: flags, environment, files, service account; in the orders of Kubernetes' programs."""

from __future__ import annotations

import os
from pathlib import Path

from mooring.client.api_errors import CredentialsError
from mooring.client.credentials.contexts import from_kubeconfig
from mooring.client.credentials.credentials import Credentials
from mooring.client.credentials.identity import PlainIdentity
from mooring.client.credentials.kubeconfig import Kubeconfig
from mooring.client.credentials.trust import Trust

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load_credentials(kubeconfig: str | None, master: str = "", context: str = "") -> Credentials:
    """As kube-scheduler finds them: the file given, or the bare server given, or the service account.

    `master` overrides the server of the file. Raises CredentialsError.
    """
    if kubeconfig:
        return from_kubeconfig(Kubeconfig([Path(kubeconfig)]), master, context)
    if master:
        return Credentials(master, server_field="--master")
    return from_service_account()


def load_user_credentials(kubeconfig: str | None = None, context: str = "") -> Credentials:
    """Load credentials as kubectl does: from the file, KUBECONFIG, ~/.kube/config or the service account.

    Raises CredentialsError.
    """
    if kubeconfig:
        return from_kubeconfig(Kubeconfig([Path(kubeconfig)]), "", context)
    named = os.environ.get("KUBECONFIG", "")
    candidates = named.split(os.pathsep) if named else [str(Path.home() / ".kube" / "config")]
    paths = [Path(name) for name in dict.fromkeys(candidates) if name and Path(name).exists()]
    if paths:
        return from_kubeconfig(Kubeconfig(paths), "", context)
    if in_cluster():
        return from_service_account()
    missing = ", ".join(filter(None, candidates))
    raise CredentialsError(
        f"{missing}: kubeconfig not found\nhint: pass --kubeconfig FILE, or set KUBECONFIG"
    )


def in_cluster() -> bool:
    """Whether this process runs in a pod with a service account."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").is_file()


def from_service_account() -> Credentials:
    """Load the credentials of a pod; its token and CA bundle are reloaded when the kubelet rotates them."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise CredentialsError(
            "no API server configured, and not running in a pod: KUBERNETES_SERVICE_HOST and "
            "KUBERNETES_SERVICE_PORT are not set\nhint: pass --kubeconfig FILE"
        )
    namespace = SERVICE_ACCOUNT / "namespace"
    credentials = Credentials(
        f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        PlainIdentity(token_file=SERVICE_ACCOUNT / "token"),
        trust=Trust(SERVICE_ACCOUNT / "ca.crt"),
        namespace=namespace.read_text().strip() if namespace.is_file() else "",
    )
    credentials.check()
    return credentials
