"""Commands that clients run in containers, with the variables and files of the container."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mooring.sandbox.kubelet.container_life import ContainerLife
from mooring.sandbox.kubelet.containers import PodLife
from mooring.sandbox.programs.executing import NotRunningError
from mooring.sandbox.programs.files import Files
from mooring.sandbox.programs.program import Outcome, open_shell, run_command
from mooring.sandbox.programs.shell import Shell
from mooring.sandbox.programs.specs import ContainerSpec
from mooring.sandbox.programs.wire import Wire
from mooring.sandbox.programs.work import Work


def execute(
    life: PodLife,
    container: str,
    command: Sequence[str],
    now: float,
    stdin: str | None,
    work: Work | None = None,
    *,
    is_dry: bool = False,
) -> tuple[Outcome | None, Files]:
    """Run a command in a container: its outcome, None where that is not known, and the files it has written.
    `work` is what it may cost. With `is_dry` nothing is asked of the network, where there could be effects:
    the command is then taken to wait for an answer.

    Raises NotRunningError.
    """
    one, spec = _find(life, container)
    files = one.files.fork()
    sources, wire = one.sources or life.surroundings.sources, _wire(life)
    if is_dry and life.client is not None:
        wire = Wire(life.client, until=-math.inf)
    return run_command(command, spec, sources, files, now, stdin, wire, work), files


def open_container_shell(life: PodLife, container: str) -> Shell:
    """Return a shell in a container. Raises NotRunningError."""
    one, spec = _find(life, container)
    shell = open_shell(spec, one.sources or life.surroundings.sources, one.files.fork())
    shell.wire = _wire(life)
    return shell


def _wire(life: PodLife) -> Wire | None:
    """Return what a command asks by: all at once, whatever time it takes."""
    return None if life.client is None else Wire(life.client)


def find_container(life: PodLife, container: str) -> ContainerLife:
    """Return a container that runs. Raises NotRunningError."""
    one = life.find_running(container)
    if one is None:
        raise NotRunningError(container)
    return one


def _find(life: PodLife, container: str) -> tuple[ContainerLife, ContainerSpec]:
    one = find_container(life, container)
    if one.spec is None:
        raise NotRunningError(container)
    return one, one.spec
