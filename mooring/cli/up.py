"""`mooring up`: a sandbox cluster in this process."""

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

from mooring.api.kinds import NODES, PODS
from mooring.api.meta import Tree
from mooring.cli.errors import describe, exit_with
from mooring.cli.event_loop import fastest_loop
from mooring.cli.flags import option
from mooring.cli.manifests import filename_option, read_sources
from mooring.cli.output import echo
from mooring.cli.plugins import plugin_option
from mooring.cli.reloading import Sources
from mooring.cli.setup import Setup
from mooring.config import ConfigError
from mooring.framework.registration import RegistrationError
from mooring.runtime.runners import PluginError
from mooring.sandbox.apiserver.http.kubeconfig import is_ours, write_private
from mooring.sandbox.apiserver.store.sqlite import DataDirError
from mooring.sandbox.cluster.applying import ManifestError, read_trees
from mooring.sandbox.cluster.live_view import PERIOD, PlainView, Tally, TerminalView, View
from mooring.sandbox.cluster.local_cluster import LocalCluster
from mooring.sandbox.kubelet import NodesFileError, load_nodes, make_nodes

INVALID_INPUT = (ConfigError, RegistrationError, PluginError)
REPEAT_AFTER = 30.0  # seconds before the same message is shown again
MAX_REMEMBERED = 1000
INVALID = 2


class Options(NamedTuple):
    """Command line options other than the scheduler's configuration and plugins."""

    nodes: list[Tree]
    kubeconfig: str | None
    port: int
    data_dir: str | None
    scheduler: bool
    manifests: list[tuple[str, str]]
    """Text and name of each."""


@click.command()
@option("--nodes", type=click.IntRange(0, 15_000), metavar="N", help="Number of fake nodes (default 3)")
@option(
    "--nodes-file", metavar="FILE", help="YAML file with Node objects or groups of nodes, instead of --nodes"
)
@option(
    "--config",
    "config_file",
    metavar="FILE",
    help="KubeSchedulerConfiguration file; reloaded when it changes",
)
@plugin_option
@option("--reload", is_flag=True, help="Reload plugins when their files change")
@option("--kubeconfig", metavar="FILE", help="Write the kubeconfig to this file (default: a temporary file)")
@option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="API server port (default: a free port)",
)
@option(
    "--data-dir", metavar="DIR", help="Directory that persists the cluster's objects (default: in memory)"
)
@option("--no-scheduler", is_flag=True, help="Do not run a scheduler, so that you can run your own")
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
    """Start a sandbox cluster in this process: API server, controllers, fake nodes and the scheduler.

    Prints an `export KUBECONFIG=` line for kubectl, then shows scheduling decisions until Ctrl-C. Without
    --config, the plugins of --plugin run at all their extension points, in addition to the default plugins.

    \b
    Exit codes:
      0  stopped by Ctrl-C or SIGTERM
      2  invalid usage, configuration, plugin or file, or port in use
    """
    if nodes is not None and nodes_file is not None:
        raise click.UsageError("--nodes and --nodes-file are mutually exclusive")
    try:
        sources = Sources(config_file, plugins, reload_plugins=reload)
        setup = sources.load()
        for warning in setup.config.warnings:
            echo(f"warning: {warning}", err=True)
        initial = load_nodes(Path(nodes_file)) if nodes_file else make_nodes(3 if nodes is None else nodes)
        options = Options(initial, kubeconfig, port, data_dir, not no_scheduler, read_sources(files))
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            runner.run(_Up(options, sources).run(setup))
    except (*INVALID_INPUT, DataDirError, ManifestError, NodesFileError) as problem:
        exit_with(str(problem), INVALID)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            exit_with(
                f"--port {port}: in use by another process\nhint: use another port, or 0 for a free one",
                INVALID,
            )
        exit_with(describe(problem), INVALID)


class _Up:
    """A running sandbox cluster and its view on the terminal."""

    def __init__(self, options: Options, sources: Sources) -> None:
        self._options = options
        self._sources = sources
        self._cluster = LocalCluster(data_dir=options.data_dir, port=options.port)
        self._view: View

    async def run(self, setup: Setup) -> None:
        """Run until SIGINT or SIGTERM."""
        stop = asyncio.Event()
        for sign in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(sign, stop.set)
        cluster = self._cluster
        await cluster.start()
        try:
            await cluster.nodes.register(self._options.nodes)
            echo(f"export KUBECONFIG={self._kubeconfig().resolve()}")
            sys.stdout.flush()
            with self._show_view():
                watching = asyncio.create_task(self._watch(setup))
                ending = asyncio.create_task(stop.wait())
                await asyncio.wait({watching, ending}, return_when=asyncio.FIRST_COMPLETED)
                for task in (ending, watching):
                    task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching
        finally:
            await cluster.stop()

    def _kubeconfig(self) -> Path:
        """Return the path of the kubeconfig, copied to the requested path if there is one."""
        own = self._cluster.server.kubeconfig
        if self._options.kubeconfig is None:
            return own
        target = Path(self._options.kubeconfig)
        if target.exists() and not is_ours(target):
            reason = "not overwritten, because it contains other clusters\nhint: choose another file"
            raise FileExistsError(errno.EEXIST, reason, str(target))
        target.parent.mkdir(parents=True, exist_ok=True)
        write_private(target, own.read_bytes())
        return target

    @contextlib.contextmanager
    def _show_view(self) -> Iterator[None]:
        console = Console()
        self._view = TerminalView(console) if console.is_terminal else PlainView()
        root = logging.getLogger()
        root.handlers[:] = [_Warnings(self._view)]
        root.setLevel(logging.WARNING)
        try:
            yield
        finally:
            root.handlers.clear()
            self._view.close()

    async def _watch(self, setup: Setup) -> None:
        """Apply the manifests, start the scheduler, then refresh the view and check for changed files."""
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
        """Restart the scheduler with the changed files; if they are invalid, keep the previous version."""
        files = ", ".join(map(os.path.relpath, changed))
        try:
            await self._schedule(self._sources.reload())
        except (*INVALID_INPUT, OSError) as problem:
            self._view.say(f"{files}: reload failed; keeping the previous version: {problem}", trouble=True)
        else:
            self._view.say(f"{files}: reloaded")


class _Warnings(logging.Handler):
    """Show warnings and errors in the view, at most one per message and REPEAT_AFTER."""

    def __init__(self, view: View) -> None:
        super().__init__(logging.WARNING)
        self._view = view
        self._shown: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        fields = getattr(record, "fields", {})
        text += "".join(f" {name}={value}" for name, value in fields.items())
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        now = time.monotonic()
        if now - self._shown.get(text, -REPEAT_AFTER) >= REPEAT_AFTER:
            if len(self._shown) > MAX_REMEMBERED:
                self._shown.clear()
            self._shown[text] = now
            self._view.say(text, trouble=True)
