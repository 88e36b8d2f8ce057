"""Finding credentials: flags, environment, files, service account; in the orders of Kubernetes' programs."""

from __future__ import annotations

import os
from pathlib import Path

from mooring.api.errors import show
from mooring.cluster.credentials.credentials import Credentials, Impersonation
from mooring.cluster.credentials.errors import CredentialsError
from mooring.cluster.credentials.exec_plugin import ExecIdentity
from mooring.cluster.credentials.identity import Identity, PlainIdentity
from mooring.cluster.credentials.kubeconfig import Choice, Kubeconfig
from mooring.cluster.credentials.proxies import parse_proxy
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
    """The credentials of a context. Raises CredentialsError."""
    choice = config.pick(context)
    cluster, user = choice.cluster, choice.user
    server = master or cluster.server
    if not server:
        raise CredentialsError(f"{choice.cluster_field('server')}: found nothing, expected a URL")
    if (user.as_uid or user.as_groups or user.as_user_extra) and not user.as_:
        raise CredentialsError(f"{choice.user_field('as')}: found nothing, expected the user to act as")
    trust = _trust(choice)
    return Credentials(
        server,
        _identity(choice, trust, server),
        trust=trust,
        server_name="" if master else cluster.tls_server_name,
        proxy=parse_proxy(cluster.proxy_url, choice.cluster_field("proxy-url"))
        if cluster.proxy_url
        else None,
        impersonation=Impersonation(user.as_, user.as_uid, tuple(user.as_groups), user.as_user_extra),
        namespace=choice.context.namespace,
    )


def _trust(choice: Choice) -> Trust:
    cluster, name = choice.cluster, "certificate-authority"
    authorities = _either(
        cluster.certificate_authority_data,
        _resolve(cluster.certificate_authority, choice.cluster_path),
        choice.cluster_field(name),
    )
    if authorities and cluster.insecure_skip_tls_verify:
        field = choice.cluster_field("insecure-skip-tls-verify")
        raise CredentialsError(f"{field}: found true beside {name}, expected one of them")
    return Trust(authorities, cluster.insecure_skip_tls_verify)


def _identity(choice: Choice, trust: Trust, server: str) -> Identity:
    """Who a user is. A token, a password or a certificate wins over an exec plugin, as with client-go."""
    user, path = choice.user, choice.user_path
    certificate = _either(
        user.client_certificate_data,
        _resolve(user.client_certificate, path),
        choice.user_field("client-certificate"),
    )
    key = _either(user.client_key_data, _resolve(user.client_key, path), choice.user_field("client-key"))
    if certificate and not key:
        raise CredentialsError(
            f"{choice.user_field('client-key')}: found nothing, expected the certificate's key"
        )
    if user.token and (user.username or user.password):
        raise CredentialsError(f"{choice.user_field('token')}: found beside username, expected one of them")
    if user.auth_provider is not None:
        field, found = choice.user_field("auth-provider"), show(user.auth_provider.name)
        raise CredentialsError(f"{field}: found {found}, which is not supported; expected an exec plugin")
    if user.exec is not None and not (user.token or user.token_file or user.username or certificate):
        if not user.exec.interactive_mode and user.exec.api_version.endswith("/v1"):
            field = choice.user_field("exec.interactiveMode")
            raise CredentialsError(f"{field}: found nothing, expected Never, IfAvailable or Always")
        return ExecIdentity(user.exec, choice, trust, server)
    return PlainIdentity(
        token=user.token,
        token_file=_resolve(user.token_file, path),
        username=user.username,
        password=user.password,
        certificate=certificate,
        key=key,
    )


def _either(data: bytes, file: Path | None, field: str) -> bytes | Path:
    if data and file is not None:
        raise CredentialsError(f"{field}: found beside {field.rpartition('.')[2]}-data, expected one of them")
    return data or file or b""


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
