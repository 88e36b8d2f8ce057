"""`mooring simulate import` and `record`: a real cluster as input for simulations."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import NoReturn

import click

from mooring import __version__
from mooring.api.counts import count
from mooring.api.times import format_time
from mooring.cli.flags import kubeconfig_flags, option
from mooring.client.api_errors import ClusterError
from mooring.client.api_server import ApiServer
from mooring.client.credentials import CredentialsError
from mooring.client.credentials.loading import load_user_credentials
from mooring.client.signals import end_by_signals
from mooring.simulate.capture.recording import Recorder
from mooring.simulate.capture.scrubbing import Scrubber
from mooring.simulate.capture.snapshot import take_snapshot, write_snapshot

INVALID = 2
scrub_flag = click.option("--scrub", is_flag=True, help="Replace names, labels and images by pseudonyms")


@click.command(name="import")
@kubeconfig_flags
@option("-o", "--out", required=True, metavar="DIR", help="New or empty directory to write to (required)")
@scrub_flag
def import_command(kubeconfig: str, context: str, out: str, scrub: bool) -> None:
    """Take a snapshot of a cluster for use in a scenario: `cluster: [{snapshot: DIR}]`.

    Reads what the scheduler reads, in pages, and changes nothing. Secrets and ConfigMaps are not read; of
    pods only the fields that scheduling depends on are kept.
    """
    taken = format_time(time.time())

    async def work() -> None:
        api = _connect(kubeconfig, context)
        try:
            objects = await take_snapshot(api, lambda name, count: click.echo(f"{name}: {count}", err=True))
        finally:
            await api.close()
        snapshot = write_snapshot(objects, Path(out), taken, Scrubber() if scrub else None)
        counts = snapshot.counts
        click.echo(f"{out}: {count(counts.get('nodes', 0), 'node')}, {count(counts.get('pods', 0), 'pod')}")

    _run(work())


@click.command()
@kubeconfig_flags
@option("-o", "--out", required=True, metavar="FILE", help="New file to write to (required)")
@option("--for", "duration", type=float, metavar="SECONDS", help="Stop after this time (default: ^C)")
@scrub_flag
def record(kubeconfig: str, context: str, out: str, duration: float | None, scrub: bool) -> None:
    """Record what happens in a cluster until ^C, for `cluster: [{recording: FILE}]` in a scenario.

    Watches what the scheduler watches and changes nothing. Secrets and ConfigMaps are not read.
    """

    async def work() -> None:
        api = _connect(kubeconfig, context)
        try:
            with Path(out).open("xb") as file:
                recorder = Recorder(
                    api, file, format_time(time.time()), time.monotonic, Scrubber() if scrub else None
                )
                task = asyncio.create_task(recorder.run(_started))
                with end_by_signals(task.cancel):
                    await asyncio.wait([task], timeout=duration)
                task.cancel()
                results = await asyncio.gather(task, return_exceptions=True)
                if isinstance(results[0], Exception):
                    raise results[0]
                click.echo(f"{out}: {count(recorder.changes, 'change')}")
        finally:
            await api.close()

    _run(work())


def _started(objects: int) -> None:
    click.echo(f"recording, {count(objects, 'object')} at the start; stop with ^C", err=True)


def _connect(kubeconfig: str, context: str) -> ApiServer:
    credentials = load_user_credentials(kubeconfig or None, context)
    return ApiServer(credentials, user_agent=f"mooring-simulate/{__version__}")


def _run(work: object) -> None:
    try:
        asyncio.run(work)  # type: ignore[arg-type]
    except (CredentialsError, ClusterError) as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _fail(message: str) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(INVALID)
