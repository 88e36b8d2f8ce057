"""`mooring view`: manifests, a dump of a cluster, or runs of a simulation as a web page."""

from __future__ import annotations

import asyncio
import errno
import sys
from pathlib import Path

import click

from mooring.api.objects import Pod
from mooring.cli.errors import describe, exit_with
from mooring.cli.event_loop import run_until_signal
from mooring.cli.flags import option
from mooring.cli.manifests import SchedulerMaker, apply_all, missing_from_dump, read_manifests
from mooring.cli.output import echo
from mooring.cli.plugins import plugin_option
from mooring.cli.setup import load_setup
from mooring.client.signals import end_by_signals
from mooring.core.scheduler import Scheduler
from mooring.simulate.running import runs_in
from mooring.web.page_server import PageServer
from mooring.web.runs import RunSource
from mooring.web.source import FixedSource
from mooring.web.what_if import WhatIf

INVALID = 2


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE|RUNS...")
@option("--config", "config_file", metavar="FILE", help="KubeSchedulerConfiguration file")
@plugin_option
@option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port of the page on 127.0.0.1 (default: a free port)",
)
def view(files: tuple[str, ...], config_file: str | None, plugins: tuple[str, ...], port: int) -> None:
    """Show manifests, a dump of a cluster, or runs of a simulation as a web page.

    Prints the link of the page and serves it until Ctrl-C. Pods with a node are shown there; why the others
    do not fit, and what would help, is computed from the files. Nothing is scheduled, except in What if.
    RUNS are directories that `mooring simulate` wrote; the page shows the cluster at any time of a run.

    \b
    Exit codes:
      0  stopped by Ctrl-C or SIGTERM
      2  invalid usage, configuration, plugin, file or run, or port in use
    """
    maker = SchedulerMaker(config_file, plugins)
    config, registry = load_setup(config_file, plugins)
    folders = [runs_in(Path(file)) for file in files]
    source: FixedSource | RunSource
    if any(folders):
        if not all(folders):
            exit_with("runs and manifests cannot be shown together\nhint: name one or the other", INVALID)
        try:
            source = RunSource([folder for each in folders for folder in each], config, registry)
        except (OSError, ValueError) as problem:
            exit_with(describe(problem) if isinstance(problem, OSError) else str(problem), INVALID)
    else:
        source = FixedSource(_load(maker, files), config, registry, ", ".join(files))
    try:
        run_until_signal(_serve(source, port))
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            exit_with(
                f"--port {port}: in use by another process\nhint: use another port, or 0 for a free one",
                INVALID,
            )
        exit_with(describe(problem), INVALID)


def _load(maker: SchedulerMaker, files: tuple[str, ...]) -> Scheduler:
    """Return a scheduler with the objects of manifests; print what is wrong with them and what is missing."""
    objects, problems = read_manifests(files, maker.kinds())
    core = maker.make(objects)
    for problem in problems + apply_all(core, objects):
        echo(problem, err=True)
    for warning in missing_from_dump(objects, [obj for obj in objects if isinstance(obj, Pod)]):
        echo(warning, err=True)
    return core


async def _serve(source: FixedSource | RunSource, port: int) -> None:
    actions = WhatIf(source).actions()
    if isinstance(source, RunSource):
        page = PageServer(
            source,
            lambda: source.core.clock(),
            port=port,
            actions=actions | source.actions(),
            state=source.state,
            views={"run": source.overview},
        )
    else:
        page = PageServer(source, source.core.clock, port=port, actions=actions)
    serving = asyncio.create_task(page.run(), name="web page")
    with end_by_signals(serving.cancel):
        echo(f"page: {page.link}")
        sys.stdout.flush()
        await asyncio.wait([serving])
