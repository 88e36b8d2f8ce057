"""`mooring` as a process of its own that need not import everything again: most of a short command's time."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mooring.cli import COMMANDS, main

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([f"mooring.cli.{name}" for name in COMMANDS])


def mooring(
    *args: str, cwd: Path | None = None, stdin: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a fork of a process that has imported Mooring, and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("in", "out", "err")]
        streams[0].write_text(stdin)
        surroundings = cwd or Path.cwd(), {**os.environ, **(environment or {})}
        process = _forks.Process(target=_run, args=(args, *surroundings, streams))
        process.start()
        process.join()
        code = process.exitcode
        process.close()
        assert code is not None
        return subprocess.CompletedProcess(["mooring", *args], code, *(s.read_text() for s in streams[1:]))


def _run(args: tuple[str, ...], cwd: Path, environment: Mapping[str, str], streams: list[Path]) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate(streams):
        file = os.open(path, os.O_CREAT | os.O_RDWR)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.argv = ["mooring", *args]
    sys.path[0] = str(Path(sys.executable).parent)  # as for the installed script
    main()
