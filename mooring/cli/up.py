"""`mooring up`: a whole cluster in this process, to try things on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console

from mooring.cli.event_loop import fastest_loop
from mooring.cli.manifests import filename_option, read_sources
from mooring.cli.plugins import plugin_option
from mooring.cli.reloading import Setup, Sources
from mooring.config import ConfigError
from mooring.framework.registration import RegistrationError
from mooring.runtime.runners import PluginError
from mooring.sandbox.apiserver.http.kubeconfig import is_ours, write_private
from mooring.sandbox.cluster.applying import ManifestError, Tree, read_trees
from mooring.sandbox.cluster.live_view import PERIOD, PlainView, Tally, TerminalView, View
from mooring.sandbox.cluster.local_cluster import LocalCluster
from mooring.sandbox.controllers.kinds import NODES, PODS
from mooring.sandbox.kubelet import NodesFileError, load_nodes, make_nodes

WRONG = (ConfigError, RegistrationError, PluginError)
TELL_AGAIN_AFTER = 30.0  # seconds in which the same trouble is not worth a second line
MOST_REMEMBERED = 1000


class Options(NamedTuple):
    """What the command line says, beside the scheduler's configuration."""

    nodes: list[Tree]
    kubeconfig: str | None
    port: int
    data_dir: str | None
    scheduler: bool
    manifests: list[tuple[str, str]]
    """Text and name of each."""


@click.command()
@click.option(
    "--nodes", type=click.IntRange(0, 15_000), metavar="N", help="Fake nodes to begin with (default 3)."
)
@click.option("--nodes-file", metavar="FILE", help="Nodes to begin with: Node objects, or groups of them.")
@click.option(
    "--config", "config_file", metavar="FILE", help="A KubeSchedulerConfiguration; read again when saved."
)
@plugin_option
@click.option("--reload", is_flag=True, help="Read plugins again when their files are saved.")
@click.option(
    "--kubeconfig", metavar="FILE", help="Where to write the kubeconfig (default: a temporary file)."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Of the API server (default: any free one)."
)
@click.option("--data-dir", metavar="DIR", help="Keep the cluster's objects there (default: in memory only).")
@click.option("--no-scheduler", is_flag=True, help="Without Mooring's scheduler: bring your own.")
@filename_option(required=False)
def up(
    nodes: int | None,
    nodes_file: str | None,
    config_file: str | None,
    plugins: tuple[str, ...],
    reload: bool,
    kubeconfig: str | None,
    port: int,
    data_dir: str | None,
    no_scheduler: bool,
    files: tuple[str, ...],
) -> None:
    """Bring up a cluster in this process: API server, controllers, fake nodes and the scheduler.

    Prints the line to export, so that kubectl finds it, then what happens. Ctrl-C ends it. Without --config
    the plugins named with --plugin run at all their extension points, beside the default ones.

    Exits 0 when told to end, 2 when the configuration, a plugin, a manifest or another file is wrong, or the
    port is taken.
    """
    if nodes is not None and nodes_file is not None:
        raise click.UsageError("--nodes and --nodes-file: expected one of them")
    try:
        sources = Sources(config_file, plugins, reload_plugins=reload)
        setup = sources.load()
        for warning in setup.config.warnings:
            click.echo(f"warning: {warning}", err=True)
        wanted = load_nodes(Path(nodes_file)) if nodes_file else make_nodes(3 if nodes is None else nodes)
        options = Options(wanted, kubeconfig, port, data_dir, not no_scheduler, read_sources(files))
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            runner.run(_Up(options, sources).run(setup))
    except (*WRONG, ManifestError, NodesFileError) as problem:
        click.echo(str(problem), err=True)
        sys.exit(2)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            click.echo(
                f"--port {port}: taken by another process; name another, or 0 for any free one", err=True
            )
        else:
            where = f"{problem.filename}: " if problem.filename else ""
            click.echo(f"{where}{problem.strerror or problem}", err=True)
        sys.exit(2)


class _Up:
    """One run of the command."""

    def __init__(self, options: Options, sources: Sources) -> None:
        self._options = options
        self._sources = sources
        self._cluster = LocalCluster(data_dir=options.data_dir, port=options.port)
        self._view: View

    async def run(self, setup: Setup) -> None:
        """Until SIGINT or SIGTERM."""
        ended = asyncio.Event()
        for sign in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(sign, ended.set)
        cluster = self._cluster
        await cluster.start()
        try:
            await cluster.nodes.register(self._options.nodes)
            click.echo(f"export KUBECONFIG={self._kubeconfig().resolve()}")
            sys.stdout.flush()
            with self._looking():
                watching = asyncio.create_task(self._watch(setup))
                ending = asyncio.create_task(ended.wait())
                await asyncio.wait({watching, ending}, return_when=asyncio.FIRST_COMPLETED)
                for task in (ending, watching):
                    task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching
        finally:
            await cluster.stop()

    def _kubeconfig(self) -> Path:
        """Where the kubeconfig is; a copy where another place was asked for."""
        own = self._cluster.server.kubeconfig
        if self._options.kubeconfig is None:
            return own
        wanted = Path(self._options.kubeconfig)
        if wanted.exists() and not is_ours(wanted):
            raise FileExistsError(
                errno.EEXIST, "holds other clusters, and is not overwritten; name another file", str(wanted)
            )
        wanted.parent.mkdir(parents=True, exist_ok=True)
        write_private(wanted, own.read_bytes())
        return wanted

    @contextlib.contextmanager
    def _looking(self) -> Iterator[None]:
        console = Console()
        self._view = TerminalView(console) if console.is_terminal else PlainView()
        root = logging.getLogger()
        root.handlers[:] = [_Troubles(self._view)]
        root.setLevel(logging.WARNING)
        try:
            yield
        finally:
            root.handlers.clear()
            self._view.close()

    async def _watch(self, setup: Setup) -> None:
        """Apply, schedule, and then look a few times a second at what there is to see."""
        for text, name in self._options.manifests:
            for line in await self._cluster.applier.apply_all(read_trees(text, name), name):
                self._view.say(line)
        if self._options.scheduler:
            await self._schedule(setup)
        cache = self._cluster.cache
        tally = Tally(cache.follow(PODS), cache.follow(NODES))
        while True:
            self._view.refresh(tally.counts())
            await asyncio.sleep(PERIOD)
            if self._options.scheduler and (changed := self._sources.changed()):
                await self._reload(changed)

    async def _schedule(self, setup: Setup) -> None:
        await self._cluster.schedule(setup.config, setup.registry, on_decision=self._view.decided)

    async def _reload(self, changed: list[str]) -> None:
        """Take what was saved into use; where it is broken, the old stays."""
        files = ", ".join(map(os.path.relpath, changed))
        try:
            await self._schedule(self._sources.reload())
        except (*WRONG, OSError) as problem:
            self._view.say(f"{files}: not taken into use, the old one stays: {problem}", trouble=True)
        else:
            self._view.say(f"{files}: saved, and in use now")


class _Troubles(logging.Handler):
    """Brings what is logged as a warning or worse to the screen, the same words once in a while."""

    def __init__(self, view: View) -> None:
        super().__init__(logging.WARNING)
        self._view = view
        self._told: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        fields = getattr(record, "fields", {})
        text += "".join(f" {name}={value}" for name, value in fields.items())
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        now = time.monotonic()
        if now - self._told.get(text, -TELL_AGAIN_AFTER) >= TELL_AGAIN_AFTER:
            if len(self._told) > MOST_REMEMBERED:
                self._told.clear()
            self._told[text] = now
            self._view.say(text, trouble=True)
