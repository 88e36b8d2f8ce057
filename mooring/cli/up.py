"""`mooring up`: a sandbox cluster in this process."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console

from mooring.api.kinds import NODES, PODS
from mooring.api.meta import Tree
from mooring.cli.detached import register, start
from mooring.cli.errors import describe, exit_with
from mooring.cli.event_loop import run_until_signal
from mooring.cli.flags import option
from mooring.cli.kubeconfig_files import Copy, Merged
from mooring.cli.manifests import filename_option, read_sources
from mooring.cli.output import echo
from mooring.cli.plugins import plugin_option
from mooring.cli.reloading import Sources
from mooring.cli.setup import Setup
from mooring.client.clocks import ScaledClock, steady_clock
from mooring.client.signals import end_by_signals
from mooring.config import (
    ConfigError,
    FeatureGateError,
    FeatureGates,
    KubeSchedulerConfiguration,
    parse_feature_gates,
)
from mooring.core.decision import Decision
from mooring.demo.examples import read
from mooring.framework.registration import RegistrationError
from mooring.runtime.runners import PluginError
from mooring.sandbox.apiserver.store.sqlite import DataDirError
from mooring.sandbox.cluster.applying import ManifestError, read_trees
from mooring.sandbox.cluster.live_view import PERIOD, PlainView, Tally, TerminalView, View
from mooring.sandbox.cluster.local_cluster import LocalCluster
from mooring.sandbox.cluster.stages import Stage, stage_of
from mooring.sandbox.kubelet import NodesFileError, load_nodes, make_nodes
from mooring.web.page_server import PageServer
from mooring.web.sandbox_page import SandboxControls, SandboxSource
from mooring.web.what_if import WhatIf

INVALID_INPUT = (ConfigError, FeatureGateError, RegistrationError, PluginError)
REPEAT_AFTER = 30.0  # seconds before the same message is shown again
MAX_REMEMBERED = 1000
INVALID = 2
STOP_TIME = 0.5  # seconds that containers take to stop: deleted pods are seen terminating
EXAMPLES = {
    "tour": ("tour", "workload.yaml"),
    "quickstart": ("quickstart", "pods.yaml"),
    "GPU claims": ("gpu-claims", "train.yaml"),
}
"""Manifests that the page offers to apply."""


class Options(NamedTuple):
    """Command line options other than the scheduler's configuration and plugins."""

    nodes: list[Tree]
    kubeconfig: str | None
    port: int
    data_dir: str | None
    scheduler: bool
    manifests: list[tuple[str, str]]
    """Text and name of each."""
    merge: bool = False
    command: str = ""
    """To run in a shell once the cluster is ready; the cluster stops when it ends."""
    detached: bool = False
    web_port: int | None = None
    """Of the page; None: no page."""
    missing_images: tuple[str, ...] = ()
    """Shell patterns."""


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
@option(
    "--merge-kubeconfig",
    is_flag=True,
    help="Add the cluster to $KUBECONFIG or ~/.kube/config while it runs, as the current context",
)
@option(
    "--run",
    "command",
    default="",
    metavar="COMMAND",
    help="Run a shell command with KUBECONFIG set once the cluster is ready, then stop with its exit code",
)
@option(
    "--feature-gates",
    multiple=True,
    metavar="NAME=BOOL,...",
    help="Feature gates of the scheduler, the API server and the controllers",
)
@option(
    "--missing-image",
    "missing_images",
    multiple=True,
    metavar="PATTERN",
    help="Shell pattern of images that cannot be pulled, such as 'registry.example.com/*'; repeatable",
)
@option("--no-web", is_flag=True, help="Do not serve the web page")
@option(
    "--web-port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port of the web page on 127.0.0.1 (default: a free port)",
)
@option("--detach", is_flag=True, help="Run in the background; `mooring down` stops the cluster")
@click.option("--detached", is_flag=True, hidden=True)
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
    merge_kubeconfig: bool,
    command: str,
    feature_gates: tuple[str, ...],
    missing_images: tuple[str, ...],
    no_web: bool,
    web_port: int,
    detach: bool,
    detached: bool,
    files: tuple[str, ...],
) -> None:
    """Start a sandbox cluster in this process: API server, controllers, fake nodes and the scheduler.

    Prints an `export KUBECONFIG=` line for kubectl and the link of the web page once the cluster is ready and
    the manifests of -f are applied, then shows scheduling decisions until Ctrl-C. Without --config, the
    plugins of --plugin run at all their extension points, in addition to the default plugins.

    \b
    Exit codes:
      0  stopped by Ctrl-C or SIGTERM
      2  invalid usage, configuration, plugin or file, or port in use
      …  that of the command, with --run
    """
    if detach:
        if command:
            raise click.UsageError("--detach and --run are mutually exclusive")
        start([each for each in sys.argv[sys.argv.index("up") + 1 :] if each != "--detach"])
        return
    if nodes is not None and nodes_file is not None:
        raise click.UsageError("--nodes and --nodes-file are mutually exclusive")
    try:
        gates = parse_feature_gates(feature_gates)
        sources = Sources(config_file, plugins, reload_plugins=reload, feature_gates=gates)
        setup = sources.load()
        for warning in setup.config.warnings:
            echo(f"warning: {warning}", err=True)
        initial = load_nodes(Path(nodes_file)) if nodes_file else make_nodes(3 if nodes is None else nodes)
        options = Options(
            initial,
            kubeconfig,
            port,
            data_dir,
            not no_scheduler,
            read_sources(files),
            merge_kubeconfig,
            command,
            detached,
            None if no_web or no_scheduler or command else web_port,
            missing_images,
        )
        code = run_until_signal(_Up(options, sources, setup.config.config).run(setup))
    except (*INVALID_INPUT, DataDirError, ManifestError, NodesFileError) as problem:
        exit_with(str(problem), INVALID)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            flags = f"--port {port}" if not web_port else f"--port {port} or --web-port {web_port}"
            exit_with(
                f"{flags}: in use by another process\nhint: use another port, or 0 for a free one", INVALID
            )
        exit_with(describe(problem), INVALID)
    sys.exit(code)


class _Up:
    """A running sandbox cluster and its view on the terminal."""

    def __init__(self, options: Options, sources: Sources, config: KubeSchedulerConfiguration) -> None:
        self._options = options
        self._sources = sources
        self._cluster = LocalCluster(
            data_dir=options.data_dir,
            port=options.port,
            features=FeatureGates(config.feature_gates).enabled(),
            coscheduling=config.enables("Coscheduling"),
            clock=ScaledClock(steady_clock()),
            missing_images=options.missing_images,
            stop_time=STOP_TIME,
        )
        self._view: View | None = None
        self._early: list[Decision] = []  # before there is a view
        self._page: PageServer | None = None

    async def run(self, setup: Setup) -> int:
        """Run until SIGINT or SIGTERM, or until the command of --run ends; return the exit code."""
        stop = asyncio.Event()
        with end_by_signals(lambda _: stop.set()):
            return await self._run_until(stop, setup)

    async def _run_until(self, stop: asyncio.Event, setup: Setup) -> int:
        ending = asyncio.create_task(stop.wait())
        cluster = self._cluster
        await cluster.start()
        try:
            with contextlib.ExitStack() as files:
                preparing = asyncio.create_task(self._prepare(setup, files))
                await asyncio.wait({preparing, ending}, return_when=asyncio.FIRST_COMPLETED)
                if stop.is_set():
                    preparing.cancel()
                    return 0
                path = preparing.result()
                if self._options.command:
                    return await self._run_command(path, ending)
                with self._show_view() as view:
                    watching = asyncio.create_task(self._watch(view))
                    await asyncio.wait({watching, ending}, return_when=asyncio.FIRST_COMPLETED)
                    watching.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await watching
                return 0
        finally:
            ending.cancel()
            await cluster.stop()

    async def _prepare(self, setup: Setup, files: contextlib.ExitStack) -> Path:
        """Register the nodes, apply the manifests, start the scheduler; then print the kubeconfig's path."""
        cluster, options = self._cluster, self._options
        path = self._kubeconfig(files).resolve()
        await cluster.nodes.register(options.nodes)
        quiet = bool(options.command)
        for text, name in options.manifests:
            for line in await cluster.applier.apply_all(read_trees(text, name), name):
                echo(line, err=quiet)
        for problem in cluster.applier.unknown_fields:
            echo(f"warning: {problem}", err=True)
        if options.web_port is not None:
            self._page = self._serve_page(setup, options.web_port, files)
        if options.scheduler:
            await self._schedule(setup)
        link = "" if self._page is None else self._page.link
        if options.detached:
            files.enter_context(register(path, link))
        if not quiet:
            echo(f"export KUBECONFIG={path}")
            if link and not options.detached:  # its output is a log
                echo(f"page: {link}")
            sys.stdout.flush()
        return path

    def _serve_page(self, setup: Setup, port: int, files: contextlib.ExitStack) -> PageServer:
        source = self._source = SandboxSource(self._cluster, setup.config, setup.registry)
        controls = SandboxControls(self._cluster, {name: read(*place) for name, place in EXAMPLES.items()})
        page = PageServer(
            source,
            self._cluster.clock,
            port=port,
            actions={**controls.actions(), **WhatIf(source).actions()},
            state=controls.state,
            views={"sandbox": controls.overview},
        )
        serving = asyncio.create_task(page.run(), name="web page")
        files.callback(serving.cancel)
        return page

    def _kubeconfig(self, files: contextlib.ExitStack) -> Path:
        """Return the path of the kubeconfig, and write the copies that the user asked for."""
        own = self._cluster.server.kubeconfig
        if self._options.merge:
            files.callback(Merged(own).remove)
        if self._options.kubeconfig is None:
            return own
        target = Path(self._options.kubeconfig)
        files.callback(Copy(own, target).remove)
        return target

    async def _run_command(self, kubeconfig: Path, ending: asyncio.Task[bool]) -> int:
        """Run the command of --run; a signal ends it, too."""
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        process = await asyncio.create_subprocess_shell(self._options.command, env=environment)
        done = asyncio.create_task(process.wait())
        await asyncio.wait({done, ending}, return_when=asyncio.FIRST_COMPLETED)
        if process.returncode is None:
            process.terminate()
        code = await done
        return code if code >= 0 else 128 - code

    @contextlib.contextmanager
    def _show_view(self) -> Iterator[View]:
        console = Console()
        view = self._view = (
            TerminalView(console, self._stage) if console.is_terminal else PlainView(self._stage)
        )
        for decision in self._early:
            view.decided(decision)
        root = logging.getLogger()
        root.handlers[:] = [_Warnings(view)]
        root.setLevel(logging.WARNING)
        try:
            yield view
        finally:
            root.handlers.clear()
            view.close()

    def _stage(self, decision: Decision) -> Stage:
        return stage_of(self._cluster.scheduler, decision)

    async def _watch(self, view: View) -> None:
        """Refresh the view and check for changed files."""
        cache = self._cluster.cache
        tally = Tally(cache.follow(PODS), cache.follow(NODES))
        while True:
            view.refresh(tally.counts())
            await asyncio.sleep(PERIOD)
            if self._options.scheduler and (changed := self._sources.changed()):
                await self._reload(changed, view)

    async def _schedule(self, setup: Setup) -> None:
        if self._page is not None:
            self._source.config, self._source.registry = setup.config, setup.registry
        await self._cluster.schedule(setup.config, setup.registry, on_decision=self._decided)

    def _decided(self, decision: Decision) -> None:
        if self._page is not None:
            self._page.decided(decision)
        if self._view is not None:
            self._view.decided(decision)
        elif not self._options.command:
            self._early.append(decision)

    async def _reload(self, changed: list[str], view: View) -> None:
        """Restart the scheduler with the changed files; if they are invalid, keep the previous version."""
        files = ", ".join(map(os.path.relpath, changed))
        try:
            # In a thread: what a module does when it is imported may take any time.
            await self._schedule(await asyncio.to_thread(self._sources.reload))
        except (*INVALID_INPUT, OSError) as problem:
            view.say(f"{files}: reload failed; keeping the previous version: {problem}", trouble=True)
        else:
            view.say(f"{files}: reloaded")


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
