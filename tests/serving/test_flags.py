"""The flags of `mooring scheduler` for serving: kube-scheduler's, and what they become."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mooring.cli import scheduler as command
from mooring.process.scheduler_process import Settings
from mooring.serving.settings import EndpointSettings

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {token: t}}]
"""


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """What the command would run with."""
    seen: list[Settings] = []

    async def remember(settings: Settings) -> int:
        seen.append(settings)
        return 0

    monkeypatch.setattr(command, "run", remember)
    return seen


def given(*flags: str) -> Any:
    return CliRunner().invoke(command.scheduler, flags)


def test_defaults_are_kube_schedulers(settings: list[Settings]) -> None:
    assert given().exit_code == 0
    [found] = settings
    assert found.endpoints == EndpointSettings()
    assert (found.endpoints.bind_address, found.endpoints.secure_port) == ("0.0.0.0", 10259)


def test_every_flag(settings: list[Settings]) -> None:
    result = given(
        "--bind-address=127.0.0.1",
        "--secure-port=1234",
        "--cert-dir=/certs",
        "--tls-cert-file=/tls.crt",
        "--tls-private-key-file=/tls.key",
        "--tls-min-version=VersionTLS13",
        "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384",
        "--client-ca-file=/ca.crt",
        "--authentication-kubeconfig=/authn",
        "--authentication-skip-lookup",
        "--authentication-tolerate-lookup-failure=false",
        "--authentication-token-webhook-cache-ttl=1m30s",
        "--authorization-kubeconfig=/authz",
        "--authorization-always-allow-paths=/healthz,/metrics/*",
        "--authorization-webhook-cache-authorized-ttl=500ms",
        "--authorization-webhook-cache-unauthorized-ttl=0s",
    )
    assert (result.exit_code, result.output) == (0, "")
    assert settings[0].endpoints == EndpointSettings(
        bind_address="127.0.0.1",
        secure_port=1234,
        cert_dir="/certs",
        tls_cert_file="/tls.crt",
        tls_private_key_file="/tls.key",
        tls_min_version="VersionTLS13",
        tls_cipher_suites=("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"),
        client_ca_file="/ca.crt",
        authentication_kubeconfig="/authn",
        authentication_skip_lookup=True,
        authentication_tolerate_lookup_failure=False,
        authentication_cache_seconds=90,
        authorization_kubeconfig="/authz",
        authorization_always_allow_paths=("/healthz", "/metrics/*"),
        authorization_allowed_cache_seconds=0.5,
        authorization_denied_cache_seconds=0,
    )


def test_an_empty_address_is_everywhere(settings: list[Settings]) -> None:
    given("--bind-address=")
    assert settings[0].endpoints.bind_address == "0.0.0.0"


@pytest.mark.parametrize("flag", ["--secure-port=x", "--secure-port=70000", "--secure-port=-1"])
def test_ports_that_are_none(flag: str, settings: list[Settings]) -> None:
    assert given(flag).exit_code == 2
    assert settings == []


def test_flags_for_front_proxies_are_said_to_be_without_effect(settings: list[Settings]) -> None:
    result = given("--requestheader-client-ca-file=/x")
    assert "--requestheader-client-ca-file has no effect" in result.output
    assert len(settings) == 1


def test_addresses_for_plain_http_are_ignored_with_a_warning(
    settings: list[Settings], tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    tree = {
        "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
        "kind": "KubeSchedulerConfiguration",
        "healthzBindAddress": "0.0.0.0:10251",
        "metricsBindAddress": "127.0.0.1:0",
    }
    path.write_text(yaml.safe_dump(tree))
    result = given(f"--config={path}")
    assert "healthzBindAddress: 0.0.0.0:10251 is ignored: Mooring serves only HTTPS" in result.output
    assert "metricsBindAddress" not in result.output
    assert len(settings) == 1


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--tls-min-version=1.2", '--tls-min-version: invalid value "1.2"'),
        ("--tls-cert-file=/nowhere", "--tls-cert-file requires --tls-private-key-file"),
        ("--client-ca-file=/nowhere", "/nowhere: client authorities: cannot be read"),
        ("--authorization-always-allow-paths=/a*b", '"/a*b": a star is allowed only at the end'),
        ("--authentication-kubeconfig=/nowhere", "/nowhere"),
        ("--bind-address=everywhere", '--bind-address: "everywhere" is not an IP address'),
    ],
)
def test_what_makes_no_sense_ends_before_it_begins(flag: str, said: str, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    result = given(f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", flag)
    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output


def test_a_port_that_is_taken_ends_the_process(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        flags = [f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", f"--secure-port={port}"]
        run = [sys.executable, "-m", "mooring.cli", "scheduler", *flags]
        done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        f"cannot listen on 127.0.0.1 port {port}: Address already in use\n"
        "hint: choose others with --bind-address and --secure-port\n"
    )
