"""The serving flags of `mooring scheduler`, named and grouped as kube-scheduler's."""

from __future__ import annotations

from typing import Any

import click

from mooring.cli.flags import comma_separated, duration, flag, group, option, text
from mooring.serving.settings import ALWAYS_ALLOWED, EndpointSettings

_secure_serving = group(
    text(
        "--bind-address",
        "IP address to listen on for --secure-port; 0.0.0.0 or :: means all interfaces",
        "0.0.0.0",
        "IP",
    ),
    option(
        "--secure-port",
        type=click.IntRange(0, 65535),
        default=10259,
        metavar="PORT",
        help="Port for HTTPS with authentication and authorization; 0 disables serving",
    ),
    text("--tls-cert-file", "X.509 certificate for HTTPS, followed by its CA chain if any", metavar="FILE"),
    text("--tls-private-key-file", "Private key for --tls-cert-file", metavar="FILE"),
    text(
        "--cert-dir",
        "Directory for a self-signed certificate, generated if missing; ignored with --tls-cert-file "
        "(default: generate one in memory)",
        metavar="DIR",
    ),
    text(
        "--tls-min-version",
        "Minimum TLS version: VersionTLS12 or VersionTLS13 (default VersionTLS12)",
        metavar="VERSION",
    ),
    comma_separated(
        "--tls-cipher-suites",
        "TLS 1.2 cipher suites, by their Go names (default: all secure suites)",
    ),
    section="Secure serving flags",
)

_authentication = group(
    text(
        "--authentication-kubeconfig",
        "Kubeconfig for TokenReview requests (default: the scheduler's own)",
        metavar="FILE",
    ),
    flag(
        "--authentication-skip-lookup",
        "Do not read the client CA bundle from the cluster (default false)",
        default=False,
    ),
    flag(
        "--authentication-tolerate-lookup-failure",
        "Continue if the client CA bundle cannot be read from the cluster",
        default=True,
    ),
    duration("--authentication-token-webhook-cache-ttl", "How long to cache TokenReview responses", "10s"),
    text(
        "--client-ca-file",
        "CA bundle for verifying client certificates (default: read from the cluster)",
        metavar="FILE",
    ),
    section="Authentication flags",
)

_authorization = group(
    text(
        "--authorization-kubeconfig",
        "Kubeconfig for SubjectAccessReview requests (default: the scheduler's own)",
        metavar="FILE",
    ),
    comma_separated(
        "--authorization-always-allow-paths",
        "HTTP paths served without authorization",
        ",".join(ALWAYS_ALLOWED),
    ),
    duration(
        "--authorization-webhook-cache-authorized-ttl",
        "How long to cache 'authorized' SubjectAccessReview responses",
        "10s",
    ),
    duration(
        "--authorization-webhook-cache-unauthorized-ttl",
        "How long to cache 'unauthorized' SubjectAccessReview responses",
        "10s",
    ),
    section="Authorization flags",
)

serving_flags = group(_secure_serving, _authentication, _authorization)


def endpoint_settings(values: dict[str, Any]) -> EndpointSettings:
    """Return the settings that the flags' values make up."""
    return EndpointSettings(
        bind_address=values["bind_address"] or "0.0.0.0",
        secure_port=values["secure_port"],
        cert_dir=values["cert_dir"],
        tls_cert_file=values["tls_cert_file"],
        tls_private_key_file=values["tls_private_key_file"],
        tls_min_version=values["tls_min_version"],
        tls_cipher_suites=values["tls_cipher_suites"],
        client_ca_file=values["client_ca_file"],
        authentication_kubeconfig=values["authentication_kubeconfig"],
        authentication_skip_lookup=values["authentication_skip_lookup"],
        authentication_tolerate_lookup_failure=values["authentication_tolerate_lookup_failure"],
        authentication_cache_seconds=values["authentication_token_webhook_cache_ttl"].seconds,
        authorization_kubeconfig=values["authorization_kubeconfig"],
        authorization_always_allow_paths=values["authorization_always_allow_paths"],
        authorization_allowed_cache_seconds=values["authorization_webhook_cache_authorized_ttl"].seconds,
        authorization_denied_cache_seconds=values["authorization_webhook_cache_unauthorized_ttl"].seconds,
    )
