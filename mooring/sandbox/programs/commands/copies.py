"""Commands that copy and rename files."""

from __future__ import annotations

import posixpath
from functools import partial
from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs.commands.arguments import attempt, split_options
from mooring.sandbox.programs.errors import UnknownProgramError

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command
    from mooring.sandbox.programs.shell import Shell


def _copy(shell: Shell, words: list[str], *, moves: bool = False) -> int:
    """Run `cp` or `mv`."""
    name = "mv" if moves else "cp"
    options, paths = split_options(words)
    if set(options) - {"f", "v"} or len(paths) < 2:
        raise UnknownProgramError(name)
    *sources, target = paths
    into_folder = _is_folder(shell, target, sources[0])
    if len(sources) > 1 and not into_folder:
        shell.complain(f"{name}: target '{target}' is not a directory\n")
        return 1
    status = 0
    for source in sources:
        path = posixpath.join(target, posixpath.basename(source.rstrip("/"))) if into_folder else target
        problem = f"{name}: can't {'rename' if moves else 'copy'} '{source}': "
        failed = attempt(shell, problem, partial(shell.files.copy, source, path, shell.now, moves=moves))
        if "v" in options and not failed:
            shell.print(f"'{source}' -> '{path}'\n")
        status |= failed
    return status


def _is_folder(shell: Shell, target: str, source: str) -> bool:
    """Whether files are copied into a folder. A path in the image that is not known is taken for a file if it
    is named like the source. Raises UnknownProgramError."""
    try:
        file = shell.files.find(target, shell.now)
    except UnknownProgramError:
        if posixpath.basename(target) != posixpath.basename(source):
            raise
        return False
    return file is not None and file.is_folder


COMMANDS: Final[dict[str, Command]] = {"cp": _copy, "mv": partial(_copy, moves=True)}
