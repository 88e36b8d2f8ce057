"""`mooring extender`: serve Python functions and plugins as an HTTP extender."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click

from mooring.cli.errors import describe, exit_with
from mooring.cli.event_loop import run_until_signal
from mooring.cli.flags import SectionedCommand, group, log_flags, option, text
from mooring.cli.output import echo
from mooring.cli.setup import registry_for
from mooring.client.credentials import Credentials, CredentialsError, load_credentials
from mooring.client.credentials.loading import in_cluster
from mooring.client.port import Cluster
from mooring.config import ConfigError, LoadedConfig, load
from mooring.extender.serving.handlers import HandlerError
from mooring.extender.serving.loading import LoadingError, load_handlers
from mooring.extender.serving.offer import Served
from mooring.extender.serving.plugin_profile import mentions
from mooring.extender.serving.process import Settings, run
from mooring.framework.registration import RegistrationError
from mooring.process import logs
from mooring.process.client import LiveClient
from mooring.runtime.runners import PluginError
from mooring.serving.settings import EndpointError, EndpointSettings

INVALID = 2

_handlers = group(
    click.argument("sources", nargs=-1, metavar="[FILE.py | MODULE]..."),
    option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="MODULE:CLASS",
        help="Plugin to serve at all its extension points, as MODULE:CLASS or ./FILE.py:CLASS; repeatable",
    ),
    option(
        "--config",
        "config_file",
        metavar="FILE",
        help="KubeSchedulerConfiguration file with the arguments and weights of the plugins",
    ),
)

_cluster = group(
    text(
        "--kubeconfig",
        "Kubeconfig for the API server; required only to bind or to watch the cluster "
        "(default: the pod's service account)",
        metavar="FILE",
    ),
    text("--master", "Address of the API server; overrides the kubeconfig", metavar="URL"),
    option(
        "--node-cache-capable",
        is_flag=True,
        help="Watch the cluster, so that the scheduler can be configured with nodeCacheCapable: true",
    ),
    section="Cluster flags",
)

_serving = group(
    text("--bind-address", "IP address to listen on; 0.0.0.0 or :: means all interfaces", "127.0.0.1", "IP"),
    option(
        "--port",
        type=click.IntRange(0, 65535),
        default=8080,
        metavar="PORT",
        help="Port to listen on; 0 selects a free port, which is logged",
    ),
    text(
        "--tls-cert-file",
        "Serve HTTPS with this X.509 certificate, followed by its CA chain if any",
        metavar="FILE",
    ),
    text("--tls-private-key-file", "Private key for --tls-cert-file", metavar="FILE"),
    text("--client-ca-file", "Require client certificates that are signed by this CA bundle", metavar="FILE"),
    section="Serving flags",
)


@click.command(cls=SectionedCommand)
@_handlers
@_cluster
@_serving
@log_flags("Log verbosity, 0 to 10; 2 logs every request (default 0)")
def extender(**values: Any) -> None:
    """Serve Python functions and plugins as an HTTP extender for kube-scheduler or any other scheduler.

    Functions decorated with @extender.filter, @extender.prioritize, @extender.bind or @extender.preempt are
    served at /filter, /prioritize, /bind and /preempt, or at the path given to the decorator. Plugins are
    served at the paths of the extension points they implement. With access to a cluster, /bind works without
    a handler. Every server has /healthz, /readyz and /metrics.

    SIGTERM and SIGINT shut it down after the requests in flight.

    \b
    Exit codes:
      0  shut down by a signal
      2  invalid source, plugin, configuration or certificate, or port in use
    """
    logs.configure(values["v"], values["logging_format"])
    try:
        settings = _settings(values)
        run_until_signal(run(settings))
    except (LoadingError, HandlerError, RegistrationError, ConfigError, PluginError) as error:
        exit_with(str(error), INVALID)
    except (CredentialsError, EndpointError) as error:
        exit_with(str(error).replace("--secure-port", "--port"), INVALID)  # the scheduler's name for it
    except OSError as error:
        exit_with(describe(error), INVALID)


def _settings(values: dict[str, Any]) -> Settings:
    if not values["sources"] and not values["plugins"]:
        raise click.UsageError("nothing to serve\nhint: pass a file with handlers, or --plugin MODULE:CLASS")
    registry, classes = registry_for(values["plugins"])
    plugins = list(dict.fromkeys(cls.name for cls in classes))
    config = load(values["config_file"]) if values["config_file"] else None
    if config is not None:
        for warning in (*config.warnings, *_not_mentioned(config, plugins)):
            echo(f"warning: {warning}", err=True)
    return Settings(
        served=Served(
            handlers=[handler for source in values["sources"] for handler in load_handlers(source)],
            plugins=plugins,
            registry=registry,
            config=config,
            node_cache_capable=values["node_cache_capable"],
        ),
        endpoint=EndpointSettings(
            bind_address=values["bind_address"],
            secure_port=values["port"],
            tls_cert_file=values["tls_cert_file"],
            tls_private_key_file=values["tls_private_key_file"],
            client_ca_file=values["client_ca_file"],
        ),
        credentials=_credentials(values["kubeconfig"], values["master"]),
        make_client=_client,
    )


def _not_mentioned(config: LoadedConfig, plugins: Iterable[str]) -> Iterator[str]:
    for name in plugins:
        if not any(mentions(profile, [name]) for profile in config.config.profiles):
            yield f"{config.source}: no profile names plugin {name}; it has default arguments and weight 1"


def _credentials(kubeconfig: str, master: str) -> Credentials | None:
    """Load credentials if any are configured: an extender that neither binds nor watches needs none."""
    return load_credentials(kubeconfig, master) if kubeconfig or master or in_cluster() else None


def _client(cluster: Cluster) -> LiveClient:
    return LiveClient(cluster, may_bind=lambda: True)
