"""`mooring extender`: Python functions and plugins behind HTTP, for kube-scheduler or any other to call."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from typing import Any

import click

from mooring.cli.event_loop import fastest_loop
from mooring.cli.flags import group, text
from mooring.cli.plugins import registry_for
from mooring.client.credentials import Credentials, CredentialsError, load_credentials
from mooring.client.credentials.loading import in_cluster
from mooring.client.port import Cluster
from mooring.config import ConfigError, load
from mooring.extender.serving.handlers import HandlerError
from mooring.extender.serving.loading import LoadingError, load_handlers
from mooring.extender.serving.offer import Served
from mooring.extender.serving.process import Settings, run
from mooring.framework.registration import RegistrationError
from mooring.process import logs
from mooring.process.client import LiveClient
from mooring.runtime.runners import PluginError
from mooring.serving.settings import EndpointError, EndpointSettings

_what = group(
    click.argument("sources", nargs=-1, metavar="[FILE.py | MODULE]..."),
    click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="MODULE:CLASS",
        help="A plugin to serve; may be given several times.",
    ),
    click.option(
        "--config",
        "config_file",
        metavar="FILE",
        help="A KubeSchedulerConfiguration, for the plugins' args and weights.",
    ),
)

_cluster = group(
    text("--kubeconfig", "How to reach the API server; not needed in a pod of the cluster.", metavar="FILE"),
    text("--master", "The API server's address; overrides the kubeconfig's.", metavar="URL"),
    click.option(
        "--node-cache-capable",
        is_flag=True,
        help="Watch the cluster, so that the scheduler can be configured with nodeCacheCapable: true.",
    ),
)

_serving = group(
    text("--bind-address", "Where to serve; 0.0.0.0 and :: stand for everywhere.", "127.0.0.1", "IP"),
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=8080,
        show_default=True,
        help="Where to serve; 0: wherever there is room, and the log says where.",
    ),
    text("--tls-cert-file", "Serve HTTPS, with this certificate and its chain.", metavar="FILE"),
    text("--tls-private-key-file", "The key of --tls-cert-file.", metavar="FILE"),
    text("--client-ca-file", "Answer only clients with a certificate of these authorities.", metavar="FILE"),
)

_log = group(
    click.option("-v", "--v", "v", type=click.IntRange(0, 10), default=0, help="2 logs every request."),
    click.option("--logging-format", type=click.Choice(["text", "json"]), default="text", show_default=True),
)


@click.command()
@_what
@_cluster
@_serving
@_log
def extender(**given: Any) -> None:
    """Serve Python functions and plugins as a scheduler extender.

    Functions decorated with @extender.filter, prioritize, bind or preempt answer at /filter, /prioritize,
    /bind and /preempt, or where the decorator says; plugins answer by their extension points. With a cluster,
    /bind binds even where nobody wrote one. Beside them are /healthz, /readyz and /metrics.

    SIGTERM and SIGINT end it once what is being answered is answered. Exits 0 then, and 2 when a source, a
    plugin, the configuration or a certificate is wrong, or the port is taken.
    """
    logs.configure(given["v"], given["logging_format"])
    try:
        settings = _settings(given)
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            runner.run(run(settings))
    except (LoadingError, HandlerError, RegistrationError, ConfigError, PluginError) as error:
        _fail(str(error))
    except (CredentialsError, EndpointError) as error:
        _fail(str(error).replace("--secure-port", "--port"))  # what the scheduler calls it
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _fail(message: str) -> None:
    click.echo(message, err=True)
    sys.exit(2)


def _settings(given: dict[str, Any]) -> Settings:
    if not given["sources"] and not given["plugins"]:
        raise click.UsageError("Nothing to serve: name a file with handlers, or a --plugin MODULE:CLASS.")
    registry = registry_for(given["plugins"])
    config = load(given["config_file"]) if given["config_file"] else None
    for warning in config.warnings if config is not None else ():
        click.echo(f"warning: {warning}", err=True)
    return Settings(
        served=Served(
            handlers=[handler for source in given["sources"] for handler in load_handlers(source)],
            plugins=_names(given["plugins"]),
            registry=registry,
            config=config,
            node_cache_capable=given["node_cache_capable"],
        ),
        endpoint=EndpointSettings(
            bind_address=given["bind_address"],
            secure_port=given["port"],
            tls_cert_file=given["tls_cert_file"],
            tls_private_key_file=given["tls_private_key_file"],
            client_ca_file=given["client_ca_file"],
        ),
        credentials=_credentials(given["kubeconfig"], given["master"]),
        make_client=_client,
    )


def _names(paths: tuple[str, ...]) -> list[str]:
    """The names of the plugins at "module:Class", which are registered by now."""
    places = (path.partition(":") for path in paths)
    return list(dict.fromkeys(getattr(import_module(module), cls).name for module, _, cls in places))


def _credentials(kubeconfig: str, master: str) -> Credentials | None:
    """An extender that neither binds nor keeps nodes needs no cluster."""
    return load_credentials(kubeconfig, master) if kubeconfig or master or in_cluster() else None


def _client(cluster: Cluster) -> LiveClient:
    return LiveClient(cluster, may_bind=lambda: True)
