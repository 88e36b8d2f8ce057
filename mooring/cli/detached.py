"""Clusters that `mooring up --detach` left running: a locked file for each, with its process id."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import click

from mooring.cli.errors import exit_with

FAILED = 2
STARTUP = 120.0  # seconds
SHUTDOWN = 60.0
POLL = 0.05


class Running(NamedTuple):
    """A detached cluster."""

    file: Path
    pid: int
    kubeconfig: str
    page: str = ""  # the link of its web page


def state_dir() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "mooring"


def register(kubeconfig: Path, page: str = "") -> IO[str]:
    """Record this process as a detached cluster until the returned file is closed."""
    folder = state_dir()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = (folder / f"{os.getpid()}.json").open("w")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    json.dump({"pid": os.getpid(), "kubeconfig": str(kubeconfig), "page": page}, file)
    file.flush()
    return file


def running() -> Iterator[Running]:
    """Yield the detached clusters; files of processes that ended are removed."""
    for path in sorted(state_dir().glob("*.json")):
        if not _is_held(path):
            path.unlink(missing_ok=True)
            continue
        try:
            tree = json.loads(path.read_text())
            yield Running(path, int(tree["pid"]), str(tree["kubeconfig"]), str(tree["page"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # just being written


def _is_held(path: Path) -> bool:
    """Whether the process that wrote the file still runs: it holds a lock on it."""
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def start(arguments: Sequence[str]) -> None:
    """Start `mooring up` with these arguments in the background, and return once it is ready."""
    folder = state_dir()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix="up-", suffix=".log", delete=False) as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mooring.cli", "up", *arguments, "--detached"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + STARTUP
    while time.monotonic() < deadline:
        text = Path(log.name).read_text()
        ready = [line for line in text.splitlines() if line.startswith("export KUBECONFIG=")]
        if ready:
            click.echo(ready[0])
            page = next((each.page for each in running() if each.pid == process.pid), "")
            if page:
                click.echo(f"page: {page}", err=True)
            click.echo(f"started in the background, log in {log.name}; stop it with `mooring down`", err=True)
            return
        code = process.poll()
        if code is not None:
            exit_with(text.rstrip(), code)
        time.sleep(POLL)
    process.terminate()
    exit_with(f"{log.name}: the cluster was not ready after {STARTUP:.0f} s", FAILED)


def stop(cluster: Running) -> bool:
    """End a detached cluster; return whether it ended in time."""
    os.kill(cluster.pid, signal.SIGTERM)
    deadline = time.monotonic() + SHUTDOWN
    while _is_held(cluster.file):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    cluster.file.unlink(missing_ok=True)
    return True
