"""Commands that create and read symbolic links."""

from __future__ import annotations

import posixpath
from functools import partial
from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs.commands.arguments import attempt, find_if_known, split_options
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import NOT_THERE, FileError

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command
    from mooring.sandbox.programs.shell import Shell


def _ln(shell: Shell, words: list[str]) -> int:
    """Create symbolic links; with hard links, two files would have one content."""
    options, paths = split_options(words)
    if set(options) - set("sfnv") or "s" not in options or not paths:
        raise UnknownProgramError("ln")
    targets, place = (paths[:-1], paths[-1]) if len(paths) > 1 else (paths, ".")
    folder = find_if_known(shell, place, follow="n" not in options)
    into_folder = folder is not None and folder.is_folder
    if len(targets) > 1 and not into_folder:
        shell.complain(f"ln: target '{place}' is not a directory\n")
        return 1
    status = 0
    for target in targets:
        path = posixpath.join(place, posixpath.basename(target.rstrip("/"))) if into_folder else place
        if "f" in options and find_if_known(shell, path, follow=False) is not None:
            status |= attempt(shell, f"ln: {path}: ", partial(shell.files.remove, path, shell.now))
        failed = attempt(shell, f"ln: {path}: ", partial(shell.files.make_link, path, target, shell.now))
        if "v" in options and not failed:
            shell.print(f"'{path}' -> '{target}'\n")
        status |= failed
    return status


def _readlink(shell: Shell, words: list[str]) -> int:
    """Print where links lead; with `-f`, where paths lead in the end."""
    options, paths = split_options(words)
    if set(options) - set("fn") or not paths:
        raise UnknownProgramError("readlink")
    status = 0
    for path in paths:
        if "f" in options:
            target = _find_end(shell, path)
        else:
            file = shell.files.find(path, shell.now, follow=False)
            target = file.content if file is not None and file.is_link else None
        if target is None:
            status = 1
        else:
            shell.print(target if "n" in options else f"{target}\n")
    return status


def _realpath(shell: Shell, words: list[str]) -> int:
    options, paths = split_options(words)
    if options or not paths:
        raise UnknownProgramError("realpath")
    status = 0
    for path in paths:
        target = _find_end(shell, path)
        if target is None:
            shell.complain(f"realpath: {path}: {NOT_THERE}\n")
            status = 1
        else:
            shell.print(f"{target}\n")
    return status


def _find_end(shell: Shell, path: str) -> str | None:
    """Return the path without links, at which there may be no file; None if there is no folder for one."""
    try:
        end = shell.files.resolve(path, shell.now)
    except FileError:
        return None
    folder = shell.files.find(posixpath.dirname(end), shell.now)
    return end if folder is not None and folder.is_folder else None


COMMANDS: Final[dict[str, Command]] = {"ln": _ln, "readlink": _readlink, "realpath": _realpath}
