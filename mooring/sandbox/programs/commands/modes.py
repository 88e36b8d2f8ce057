"""`chmod`."""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs.commands.arguments import attempt
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import NOT_THERE, File

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command
    from mooring.sandbox.programs.shell import Shell

_OCTAL: Final = re.compile(r"[0-7]{1,4}")
_CHANGE: Final = re.compile(r"([ugoa]*)([-+=])([rwxXst]*)")
_SHIFTS: Final = {"u": 6, "g": 3, "o": 0}
_RIGHTS: Final = {"r": 4, "w": 2, "x": 1}
_SPECIAL: Final = {("u", "s"): stat.S_ISUID, ("g", "s"): stat.S_ISGID}
_UMASK: Final = 0o022


def _chmod(shell: Shell, words: list[str]) -> int:
    recursive = words[:1] == ["-R"]
    mode, *paths = words[recursive:] or [""]
    if not paths or any(path.startswith("-") for path in paths):
        raise UnknownProgramError("chmod")
    status = 0
    for path in paths:
        if shell.files.find(path, shell.now) is None:
            shell.complain(f"chmod: {path}: {NOT_THERE}\n")
            status = 1
            continue
        for one, file in _walk(shell, path) if recursive else [(path, shell.files.find(path, shell.now))]:
            assert file is not None
            change = partial(shell.files.change_mode, one, changed_mode(mode, file), shell.now)
            status |= attempt(shell, f"chmod: {one}: ", change)
    return status


def changed_mode(text: str, file: File) -> int:
    """Return the mode of a file after a change such as `755` or `u+x,go-w`. Raises UnknownProgramError."""
    if _OCTAL.fullmatch(text):
        return int(text, 8)
    mode = stat.S_IMODE(file.mode)
    for change in text.split(","):
        match = _CHANGE.fullmatch(change)
        if match is None:
            raise UnknownProgramError("chmod")
        who, operator, rights = match.groups()
        users = set("ugo") if "a" in who or not who else set(who)
        bits = _bits(users, rights, file) & ~(0 if who else _UMASK)
        if operator == "=":
            mode &= ~_bits(users, "rwxst", file)
        mode = mode & ~bits if operator == "-" else mode | bits
    return mode


def _bits(users: set[str], rights: str, file: File) -> int:
    bits = stat.S_ISVTX if "t" in rights else 0
    if "X" in rights and (file.is_folder or file.mode & 0o111):
        rights += "x"
    for user in users:
        for right in rights:
            bits |= _RIGHTS.get(right, 0) << _SHIFTS[user] | _SPECIAL.get((user, right), 0)
    return bits


def _walk(shell: Shell, path: str) -> Iterator[tuple[str, File]]:
    """Yield a file and all that are below it, without links."""
    file = shell.files.find(path, shell.now, follow=False)
    if file is None or file.is_link:
        return
    shell.work.spend(4)
    yield path, file
    if file.is_folder:
        for name in shell.files.list(path, shell.now):
            yield from _walk(shell, posixpath.join(path, name))


COMMANDS: Final[dict[str, Command]] = {"chmod": _chmod}
