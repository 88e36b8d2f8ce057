"""`mooring scheduler`: the scheduler on a live cluster, with kube-scheduler's command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from mooring.cli.errors import describe, exit_with
from mooring.cli.event_loop import run_until_signal
from mooring.cli.flags import (
    SectionedCommand,
    duration,
    flag,
    group,
    log_flags,
    option,
    text,
    without_effect,
)
from mooring.cli.output import echo
from mooring.cli.plugins import plugin_option
from mooring.cli.serving import endpoint_settings, serving_flags
from mooring.cli.setup import Setup, load_setup
from mooring.client.credentials import CredentialsError
from mooring.config import (
    ConfigError,
    FeatureGateError,
    FeatureGates,
    KubeSchedulerConfiguration,
    check,
    parse_feature_gates,
    to_yaml,
)
from mooring.explain.log import Recording
from mooring.framework.registration import RegistrationError
from mooring.process import logs
from mooring.process.scheduler_process import Settings, run
from mooring.runtime.runners import PluginError
from mooring.serving.settings import EndpointError
from mooring.web.scheduler_page import SchedulerPage

INVALID = 2
INVALID_SETTINGS = (
    ConfigError,
    CredentialsError,
    EndpointError,
    FeatureGateError,
    PluginError,
    RegistrationError,
)

_misc = group(
    option("--config", "config_file", metavar="FILE", help="KubeSchedulerConfiguration file"),
    text(
        "--kubeconfig",
        "Kubeconfig for the API server; ignored if --config sets clientConnection.kubeconfig "
        "(default: the pod's service account)",
        metavar="FILE",
    ),
    text("--master", "Address of the API server; overrides the kubeconfig", metavar="URL"),
    text(
        "--write-config-to", "Write the configuration with all defaults to this file and exit", metavar="FILE"
    ),
    plugin_option,
    section="Misc flags",
)

_leader_election = group(
    flag(
        "--leader-elect",
        "Acquire the lease before scheduling, for high availability with replicas (default true)",
    ),
    duration(
        "--leader-elect-lease-duration",
        "How long other candidates wait after the last renewal before they take the lease (default 15s)",
    ),
    duration(
        "--leader-elect-renew-deadline",
        "How long the leader retries a renewal before it stops leading (default 10s)",
    ),
    option(
        "--leader-elect-resource-lock",
        type=click.Choice(["leases"]),
        help="Type of object used as the lock (default leases)",
    ),
    option("--leader-elect-resource-name", metavar="NAME", help="Name of the lease (default kube-scheduler)"),
    option(
        "--leader-elect-resource-namespace",
        metavar="NAME",
        help="Namespace of the lease (default kube-system)",
    ),
    duration(
        "--leader-elect-retry-period",
        "Time between attempts to acquire or renew the lease (default 2s)",
    ),
    section="Leader election flags",
)

_deprecated = group(
    option(
        "--kube-api-qps",
        type=float,
        metavar="QPS",
        help="Requests per second to the API server; ignored with --config (default 50)",
    ),
    option(
        "--kube-api-burst",
        type=int,
        metavar="N",
        help="Burst of requests to the API server; ignored with --config (default 100)",
    ),
    duration(
        "--pod-max-in-unschedulable-pods-duration",
        "Maximum time a pod stays in unschedulablePods before it is retried",
        "5m0s",
    ),
    section="Deprecated flags",
)

_feature_gates = group(
    option(
        "--feature-gates",
        multiple=True,
        metavar="NAME=BOOL,...",
        help="Feature gates to switch on or off; those of dynamic resource allocation have an effect",
    ),
    section="Feature gate flags",
)

_decisions = group(
    option(
        "--decisions",
        type=click.Choice([mode.value for mode in Recording]),
        default=Recording.SUMMARY.value,
        help="How much to record of each scheduling attempt, for `mooring explain`",
    ),
    option(
        "--decisions-sample",
        type=click.IntRange(1),
        default=100,
        metavar="N",
        help="With --decisions=sampled, record one attempt in N in full",
    ),
    option("--web", is_flag=True, help="Serve the web page, read-only, below /web/ on --secure-port"),
    section="Decision flags",
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
    "--log-json-info-buffer-size",
    "--log-json-split-stream",
    "--log-text-info-buffer-size",
    "--log-text-split-stream",
)


@click.command(cls=SectionedCommand)
@_misc
@serving_flags
@_deprecated
@_leader_election
@_feature_gates
@_decisions
@log_flags("Log verbosity, 0 to 10 (default 0)")
@_without_effect
def scheduler(**values: Any) -> None:
    """Schedule the pods of a cluster, as a replacement for kube-scheduler or alongside it.

    The flags have kube-scheduler's names and meaning. Other flags of kube-scheduler, such as --profiling, are
    accepted with a warning and have no effect.

    SIGTERM and SIGINT shut it down gracefully: it stops scheduling, waits for bindings in flight and releases
    the lease. SIGUSR2 dumps the cache and the queue to the log.

    \b
    Exit codes:
      0  shut down by a signal
      1  leadership lost
      2  invalid configuration, plugin, credentials or certificate, or port in use
    """
    logs.configure(values["v"], values["logging_format"])
    try:
        config, registry = _setup(values)
        if values["write_config_to"]:
            Path(values["write_config_to"]).write_text(to_yaml(config.config))
            return
        settings = Settings(
            config=config,
            registry=registry,
            kubeconfig=values["kubeconfig"],
            master=values["master"],
            pod_max_in_unschedulable_seconds=values["pod_max_in_unschedulable_pods_duration"].seconds,
            endpoints=endpoint_settings(values),
            decisions=Recording(values["decisions"]),
            decisions_sample=values["decisions_sample"],
            page=SchedulerPage(config, registry) if values["web"] else None,
        )
        code = run_until_signal(run(settings))
    except (
        ConfigError,
        FeatureGateError,
        RegistrationError,
        PluginError,
        CredentialsError,
        EndpointError,
    ) as exc:
        exit_with(str(exc), INVALID)
    except OSError as exc:
        exit_with(describe(exc), INVALID)
    sys.exit(code)


def _setup(values: dict[str, Any]) -> Setup:
    """Return the plugins and the configuration of the file, or the defaults with the flags that a file
    overrides; the leader election flags override either."""
    config, registry = load_setup(values["config_file"], values["plugins"])
    if values["config_file"]:
        for warning in (*config.warnings, *_insecure_serving(config.config)):
            echo(f"warning: {warning}", err=True)
    else:
        connection = config.config.client_connection
        connection.kubeconfig = values["kubeconfig"]
        if values["kube_api_qps"] is not None:
            connection.qps = values["kube_api_qps"]
        if values["kube_api_burst"] is not None:
            connection.burst = values["kube_api_burst"]
    _apply_leader_election(config.config, values)
    config.config.feature_gates |= parse_feature_gates(values["feature_gates"])
    for name in FeatureGates(config.config.feature_gates).without_effect():
        echo(f"warning: feature gate {name} has no effect in Mooring", err=True)
    return Setup(config, registry)


def _insecure_serving(config: KubeSchedulerConfiguration) -> Iterator[str]:
    """Yield a warning for each address at which old versions served plain HTTP."""
    for field, address in (
        ("healthzBindAddress", config.healthz_bind_address),
        ("metricsBindAddress", config.metrics_bind_address),
    ):
        if address and address != "0" and not address.endswith(":0"):
            yield f"{field}: {address} is ignored: Mooring serves only HTTPS, at --secure-port"


def _apply_leader_election(config: KubeSchedulerConfiguration, values: dict[str, Any]) -> None:
    election = config.leader_election
    for info in msgspec.structs.fields(election):
        name = info.name if info.name == "leader_elect" else f"leader_elect_{info.name}"
        if values[name] is not None:
            setattr(election, info.name, values[name])
    check(config, "command line")
