"""The credentials of a kubeconfig's context."""

from __future__ import annotations

from pathlib import Path

from mooring.api.errors import MISSING, show
from mooring.client.api_errors import CredentialsError
from mooring.client.credentials.credentials import Credentials, Impersonation
from mooring.client.credentials.exec_plugin import ExecIdentity
from mooring.client.credentials.identity import Identity, PlainIdentity, token_of
from mooring.client.credentials.kubeconfig import Choice, Exec, Kubeconfig
from mooring.client.credentials.proxies import parse_proxy
from mooring.client.credentials.trust import Trust
from mooring.client.http.tunnel import Proxy


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
    credentials = Credentials(
        server,
        _identity(choice, trust, server),
        trust=trust,
        server_name="" if master else cluster.tls_server_name,
        proxy=_proxy(choice),
        impersonation=Impersonation(user.as_, user.as_uid, tuple(user.as_groups), user.as_user_extra),
        namespace=choice.context.namespace,
        scheduler="" if master else cluster.scheduler(),
        server_field="--master" if master else choice.cluster_field("server"),
    )
    credentials.check()
    return credentials


def _proxy(choice: Choice) -> Proxy | None:
    url = choice.cluster.proxy_url
    return parse_proxy(url, choice.cluster_field("proxy-url")) if url else None


def _trust(choice: Choice) -> Trust:
    cluster, name = choice.cluster, "certificate-authority"
    authorities = _either(
        cluster.certificate_authority_data,
        _resolve(cluster.certificate_authority, choice.cluster_path),
        choice.cluster_field(name),
    )
    if authorities and cluster.insecure_skip_tls_verify:
        field = choice.cluster_field("insecure-skip-tls-verify")
        raise CredentialsError(f"{field}: mutually exclusive with {name}")
    return Trust(authorities, cluster.insecure_skip_tls_verify, choice.cluster_field(f"{name}-data"))


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
        raise CredentialsError(f"{choice.user_field('token')}: mutually exclusive with username")
    if user.auth_provider is not None:
        field, provider = choice.user_field("auth-provider"), show(user.auth_provider.name)
        raise CredentialsError(f"{field}: found {provider}, which is not supported; expected an exec plugin")
    if user.exec is not None and not (user.token or user.token_file or user.username or certificate):
        _check_plugin(user.exec, choice)
        return ExecIdentity(user.exec, choice, trust, server)
    return PlainIdentity(
        token=token_of(user.token.encode(), choice.user_field("token")) if user.token else "",
        token_file=_resolve(user.token_file, path),
        username=user.username,
        password=user.password,
        certificate=certificate,
        key=key,
        field=choice.user_field("client-certificate"),
    )


def _check_plugin(plugin: Exec, choice: Choice) -> None:
    versions = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
    # v1 has to say whether it talks to a person
    mode = plugin.interactive_mode or ("IfAvailable" if plugin.api_version == versions[1] else "")
    for name, value, choices in (
        ("apiVersion", plugin.api_version, versions),
        ("interactiveMode", mode, ("Never", "IfAvailable", "Always")),
    ):
        if value not in choices:
            field = choice.user_field(f"exec.{name}")
            raise CredentialsError(
                f"{field}: found {show(value or MISSING)}, expected one of {', '.join(choices)}"
            )
    if not plugin.command:
        raise CredentialsError(f"{choice.user_field('exec.command')}: found nothing, expected a program")


def _either(data: bytes, file: Path | None, field: str) -> bytes | Path:
    if data and file is not None:
        raise CredentialsError(f"{field}: mutually exclusive with {field.rpartition('.')[2]}-data")
    return data or file or b""


def _resolve(name: str, path: Path) -> Path | None:
    """A file that a kubeconfig names: relative to that kubeconfig."""
    return path.parent / name if name else None
