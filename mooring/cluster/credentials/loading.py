"""Finding credentials: flags, environment, files, service account; in the orders of Kubernetes' programs."""

from __future__ import annotations

import os
from pathlib import Path

from mooring.cluster.credentials.credentials import Credentials, Impersonation
from mooring.cluster.credentials.errors import CredentialsError
from mooring.cluster.credentials.identity import Identity, PlainIdentity
from mooring.cluster.credentials.kubeconfig import Choice, Kubeconfig
from mooring.cluster.credentials.trust import Trust

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load_credentials(kubeconfig: str | None, master: str = "", context: str = "") -> Credentials:
    """As kube-scheduler finds them: the file given, or the bare server given, or the service account.

    `master` overrides the server of the file. Raises CredentialsError.
    """
    if kubeconfig:
        return from_kubeconfig(Kubeconfig([Path(kubeconfig)]), master, context)
    if master:
        return Credentials(master)
    return from_service_account()


def load_user_credentials(kubeconfig: str | None = None, context: str = "") -> Credentials:
    """As kubectl finds them: the file given, the files of KUBECONFIG, ~/.kube/config, the service account.

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
    looked = ", ".join(filter(None, candidates))
    raise CredentialsError(f"no kubeconfig: looked for {looked}; give one with --kubeconfig or KUBECONFIG")


def from_kubeconfig(config: Kubeconfig, master: str = "", context: str = "") -> Credentials:
    """The credentials of a context; without any context at all, `master` is enough."""
    choice = config.pick(context)
    cluster, user = choice.cluster, choice.user
    server = master or cluster.server
    if not server:
        raise CredentialsError(f"{choice.cluster_field('server')}: found nothing, expected a URL")
    return Credentials(
        server,
        _identity(choice),
        trust=_trust(choice),
        server_name="" if master else cluster.tls_server_name,
        impersonation=Impersonation(user.as_, user.as_uid, tuple(user.as_groups), user.as_user_extra),
        namespace=choice.context.namespace,
    )


def _trust(choice: Choice) -> Trust:
    cluster = choice.cluster
    file = _resolve(cluster.certificate_authority, choice.cluster_path)
    return Trust(cluster.certificate_authority_data or file or b"", cluster.insecure_skip_tls_verify)


def _identity(choice: Choice) -> Identity:
    user, path = choice.user, choice.user_path
    return PlainIdentity(
        token=user.token,
        token_file=_resolve(user.token_file, path),
        username=user.username,
        password=user.password,
        certificate=user.client_certificate_data or _resolve(user.client_certificate, path) or b"",
        key=user.client_key_data or _resolve(user.client_key, path) or b"",
    )


def _resolve(name: str, path: Path) -> Path | None:
    """A file that a kubeconfig names: relative to that kubeconfig."""
    return path.parent / name if name else None


def in_cluster() -> bool:
    """Whether this process runs in a pod with a service account."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").is_file()


def from_service_account() -> Credentials:
    """The credentials of a pod. Its token and certificate authorities are replaced in place, and followed."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise CredentialsError(
            "neither --kubeconfig nor --master is given, and this is no pod of a cluster: "
            "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; give --kubeconfig"
        )
    namespace = SERVICE_ACCOUNT / "namespace"
    return Credentials(
        f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        PlainIdentity(token_file=SERVICE_ACCOUNT / "token"),
        trust=Trust(SERVICE_ACCOUNT / "ca.crt"),
        namespace=namespace.read_text().strip() if namespace.is_file() else "",
    )
