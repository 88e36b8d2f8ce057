"""Commands that create, remove and list files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs.commands.arguments import attempt, find_if_known, split_options
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.files import LONGEST_PATH

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command
    from mooring.sandbox.programs.shell import Shell


def _touch(shell: Shell, words: list[str]) -> int:
    if not words or any(word.startswith("-") for word in words):
        raise UnknownProgramError("touch")
    status = 0
    for word in words:
        if find_if_known(shell, word) is None:
            status |= attempt(shell, f"touch: {word}: ", partial(shell.files.write, word, "", shell.now))
    return status


def _rm(shell: Shell, words: list[str]) -> int:
    options, paths = split_options(words)
    if set(options) - set("rRf"):
        raise UnknownProgramError("rm")
    status = 0
    for path in paths:
        file = shell.files.find(path, shell.now)
        if file is None and "f" in options:
            continue
        if file is not None and file.is_folder and not set(options) & {"r", "R"}:
            shell.complain(f"rm: '{path}' is a directory\n")
            status = 1
            continue
        status |= attempt(shell, f"rm: can't remove '{path}': ", partial(shell.files.remove, path, shell.now))
    return status


def _mkdir(shell: Shell, words: list[str]) -> int:
    options, paths = split_options(words)
    if set(options) - {"p"}:
        raise UnknownProgramError("mkdir")
    status = 0
    for path in paths:
        if len(path) > LONGEST_PATH:
            raise UnknownProgramError("mkdir")
        parts = path.split("/")
        folders = ["/".join(parts[: at + 1]) for at in range(len(parts))] if "p" in options else [path]
        for folder in filter(None, folders):
            if find_if_known(shell, folder) is None:
                status |= attempt(
                    shell,
                    f"mkdir: can't create directory '{path}': ",
                    partial(shell.files.make_folder, folder, shell.now),
                )
            elif "p" not in options:
                shell.complain(f"mkdir: can't create directory '{path}': File exists\n")
                status = 1
    return status


def _ls(shell: Shell, words: list[str]) -> int:
    options, paths = split_options(words)
    if set(options) - {"1"}:
        raise UnknownProgramError("ls")
    status = 0
    for at, path in enumerate(paths or ["."]):
        file = shell.files.find(path, shell.now)
        if file is None:
            shell.complain(f"ls: {path}: No such file or directory\n")
            status = 1
            continue
        if not file.is_folder:
            shell.print(f"{path}\n")
            continue
        if len(paths) > 1:
            shell.print(("\n" if at else "") + f"{path}:\n")
        names = (name for name in shell.files.list(path, shell.now) if not name.startswith("."))
        shell.print("".join(f"{name}\n" for name in names))
    return status


COMMANDS: Final[dict[str, Command]] = {"touch": _touch, "rm": _rm, "mkdir": _mkdir, "ls": _ls}
