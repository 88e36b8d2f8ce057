"""The flags of `mooring scheduler` for what it serves: kube-scheduler's, by their names."""

from __future__ import annotations

from typing import Any

import click

from mooring.cli.flags import comma_separated, duration, flag, group, text
from mooring.serving.settings import ALWAYS_ALLOWED, EndpointSettings

serving_flags = group(
    text("--bind-address", "Where to serve; 0.0.0.0 and :: stand for everywhere.", "0.0.0.0", "IP"),
    click.option(
        "--secure-port",
        type=click.IntRange(0, 65535),
        default=10259,
        show_default=True,
        help="Where to serve health, metrics and decisions over HTTPS; 0: nowhere.",
    ),
    text("--tls-cert-file", "The certificate to serve with, and its chain.", metavar="FILE"),
    text("--tls-private-key-file", "The key of --tls-cert-file.", metavar="FILE"),
    text(
        "--cert-dir",
        "Without --tls-cert-file: where a certificate is, or will be made; else it is made in memory.",
        metavar="FOLDER",
    ),
    text("--tls-min-version", "VersionTLS12 (default) or VersionTLS13.", metavar="VERSION"),
    comma_separated("--tls-cipher-suites", "For TLS 1.2, by their names in Go; all good ones by default."),
    text("--client-ca-file", "Whose client certificates to believe; looked up by default.", metavar="FILE"),
    text("--authentication-kubeconfig", "Whom to ask about tokens; by default as for all.", metavar="FILE"),
    flag("--authentication-skip-lookup", "Do not look the client authorities up.", default=False),
    flag("--authentication-tolerate-lookup-failure", "Go on where that fails.", default=True),
    duration("--authentication-token-webhook-cache-ttl", "How long to believe that.", "10s"),
    text("--authorization-kubeconfig", "Whom to ask who may; by default as for all.", metavar="FILE"),
    comma_separated(
        "--authorization-always-allow-paths",
        "What everybody may ask for.",
        ",".join(ALWAYS_ALLOWED),
    ),
    duration("--authorization-webhook-cache-authorized-ttl", "How long they may without asking.", "10s"),
    duration("--authorization-webhook-cache-unauthorized-ttl", "How long they may not.", "10s"),
)


def endpoint_settings(given: dict[str, Any]) -> EndpointSettings:
    return EndpointSettings(
        bind_address=given["bind_address"] or "0.0.0.0",
        secure_port=given["secure_port"],
        cert_dir=given["cert_dir"],
        tls_cert_file=given["tls_cert_file"],
        tls_private_key_file=given["tls_private_key_file"],
        tls_min_version=given["tls_min_version"],
        tls_cipher_suites=given["tls_cipher_suites"],
        client_ca_file=given["client_ca_file"],
        authentication_kubeconfig=given["authentication_kubeconfig"],
        authentication_skip_lookup=given["authentication_skip_lookup"],
        authentication_tolerate_lookup_failure=given["authentication_tolerate_lookup_failure"],
        authentication_cache_seconds=given["authentication_token_webhook_cache_ttl"].seconds,
        authorization_kubeconfig=given["authorization_kubeconfig"],
        authorization_always_allow_paths=given["authorization_always_allow_paths"],
        authorization_allowed_cache_seconds=given["authorization_webhook_cache_authorized_ttl"].seconds,
        authorization_denied_cache_seconds=given["authorization_webhook_cache_unauthorized_ttl"].seconds,
    )
