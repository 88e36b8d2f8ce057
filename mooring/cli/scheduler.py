"""`mooring scheduler`: the scheduler on a live cluster, in the place of the kube-scheduler binary."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from mooring.cli.event_loop import fastest_loop
from mooring.cli.flags import duration, flag, group, text, without_effect
from mooring.cli.plugins import plugin_option, registry_for
from mooring.cli.serving import endpoint_settings, serving_flags
from mooring.client.credentials import CredentialsError
from mooring.config import (
    ConfigError,
    KubeSchedulerConfiguration,
    LoadedConfig,
    check,
    default_config,
    load,
    to_yaml,
)
from mooring.explain.log import Recording
from mooring.framework.registration import RegistrationError
from mooring.process import logs
from mooring.process.process import Settings, run
from mooring.runtime.runners import PluginError
from mooring.serving.settings import EndpointError

_cluster_flags = group(
    click.option("--config", "config_file", metavar="FILE", help="A KubeSchedulerConfiguration."),
    text("--kubeconfig", "How to reach the API server; without it and --master: in-cluster.", metavar="FILE"),
    text("--master", "The API server's address; overrides the kubeconfig's.", metavar="URL"),
    click.option("--kube-api-qps", type=float, help="(default 50; not with --config)"),
    click.option("--kube-api-burst", type=int, help="(default 100; not with --config)"),
    duration(
        "--pod-max-in-unschedulable-pods-duration",
        "After which a pod is tried again whatever happened.",
        "5m",
    ),
    text("--write-config-to", "Write the completed configuration there and exit.", metavar="FILE"),
)

_leader_election_flags = group(
    flag("--leader-elect", "Lead before scheduling (default true)."),
    duration("--leader-elect-lease-duration", "(default 15s)"),
    duration("--leader-elect-renew-deadline", "(default 10s)"),
    duration("--leader-elect-retry-period", "(default 2s)"),
    click.option("--leader-elect-resource-lock", type=click.Choice(["leases"]), help="(default leases)"),
    click.option("--leader-elect-resource-name", metavar="NAME", help="(default kube-scheduler)"),
    click.option("--leader-elect-resource-namespace", metavar="NAME", help="(default kube-system)"),
)

_decision_flags = group(
    click.option(
        "--decisions",
        type=click.Choice([mode.value for mode in Recording]),
        default=Recording.SUMMARY.value,
        show_default=True,
        help="What to keep of each attempt, for `mooring explain`.",
    ),
    click.option(
        "--decisions-sample",
        type=click.IntRange(1),
        default=100,
        show_default=True,
        help="With --decisions=sampled: one attempt in so many is kept in full.",
    ),
)

_log_flags = group(
    click.option("-v", "--v", "v", type=click.IntRange(0, 10), default=0, help="The logs' verbosity."),
    click.option("--logging-format", type=click.Choice(["text", "json"]), default="text", show_default=True),
)

_without_effect = without_effect(
    "--tls-sni-cert-key",
    "--tls-curve-preferences",
    "--requestheader-allowed-names",
    "--requestheader-client-ca-file",
    "--requestheader-extra-headers-prefix",
    "--requestheader-group-headers",
    "--requestheader-uid-headers",
    "--requestheader-username-headers",
    "--profiling",
    "--contention-profiling",
    "--kube-api-content-type",
    "--feature-gates",
    "--emulated-version",
    "--min-compatibility-version",
    "--permit-port-sharing",
    "--permit-address-sharing",
    "--disable-http2-serving",
    "--http2-max-streams-per-connection",
    "--show-hidden-metrics-for-version",
    "--disabled-metrics",
    "--allow-metric-labels",
    "--allow-metric-labels-manifest",
    "--vmodule",
    "--log-flush-frequency",
)


@click.command()
@_cluster_flags
@plugin_option
@_leader_election_flags
@serving_flags
@_decision_flags
@_log_flags
@_without_effect
def scheduler(**given: Any) -> None:
    """Schedule the pods of a live cluster, as kube-scheduler does and with its flags.

    SIGTERM and SIGINT end it in order: no more pods are taken, bindings on their way arrive, the lease is
    released. Exits 0 then, 1 when leadership was lost, and 2 when the configuration, a plugin or the
    credentials are wrong, or the port is taken. SIGUSR2 writes what it knows of nodes and queue to the log.
    """
    logs.configure(given["v"], given["logging_format"])
    try:
        config = _configuration(given)
        if given["write_config_to"]:
            Path(given["write_config_to"]).write_text(to_yaml(config.config))
            return
        settings = Settings(
            config=config,
            registry=registry_for(given["plugins"]),
            kubeconfig=given["kubeconfig"],
            master=given["master"],
            pod_max_in_unschedulable_seconds=given["pod_max_in_unschedulable_pods_duration"].seconds,
            endpoints=endpoint_settings(given),
            decisions=Recording(given["decisions"]),
            decisions_sample=given["decisions_sample"],
        )
        code = _run(settings)
    except (ConfigError, RegistrationError, PluginError, CredentialsError, EndpointError) as exc:
        click.echo(str(exc), err=True)
        code = 2
    except OSError as exc:
        click.echo(f"{exc.filename}: {exc.strerror}" if exc.filename else str(exc), err=True)
        code = 2
    sys.exit(code)


def _run(settings: Settings) -> int:
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        return runner.run(run(settings))


def _configuration(given: dict[str, Any]) -> LoadedConfig:
    """The file, or the defaults with the flags that only count without one; then the leader election's,
    which always count."""
    if given["config_file"]:
        config = load(given["config_file"])
        for warning in (*config.warnings, *_insecure_serving(config.config)):
            click.echo(f"warning: {warning}", err=True)
    else:
        config = LoadedConfig(default_config())
        connection = config.config.client_connection
        connection.kubeconfig = given["kubeconfig"]
        if given["kube_api_qps"] is not None:
            connection.qps = given["kube_api_qps"]
        if given["kube_api_burst"] is not None:
            connection.burst = given["kube_api_burst"]
    _apply_leader_election(config.config, given)
    return config


def _insecure_serving(config: KubeSchedulerConfiguration) -> Iterator[str]:
    """Addresses of old for plain HTTP, which is served no more."""
    for field, address in (
        ("healthzBindAddress", config.healthz_bind_address),
        ("metricsBindAddress", config.metrics_bind_address),
    ):
        if address and address != "0" and not address.endswith(":0"):
            yield f"{field}: {address} is ignored: everything is served over HTTPS, at --secure-port"


def _apply_leader_election(config: KubeSchedulerConfiguration, given: dict[str, Any]) -> None:
    election = config.leader_election
    for info in msgspec.structs.fields(election):
        name = info.name if info.name == "leader_elect" else f"leader_elect_{info.name}"
        if given[name] is not None:
            setattr(election, info.name, given[name])
    check(config, "command line")
