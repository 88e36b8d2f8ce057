"""`ls` and `stat`, as BusyBox prints them."""

from __future__ import annotations

import posixpath
import re
import stat
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final
from zlib import crc32

from mooring.sandbox.programs.commands.arguments import split_options
from mooring.sandbox.programs.commands.users import group_name, user_name
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import File

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command
    from mooring.sandbox.programs.shell import Shell

_OPTIONS: Final = frozenset("1AadhiLln")
_HALF_A_YEAR: Final = 182 * 86_400


def _ls(shell: Shell, words: list[str]) -> int:
    options, paths = split_options(words)
    if set(options) - _OPTIONS:
        raise UnknownProgramError("ls")
    listed: list[tuple[str, File]] = []
    status = 0
    for path in paths or ["."]:
        file = shell.files.find(path, shell.now, follow=_follows(options))
        if file is None:
            shell.complain(f"ls: {path}: No such file or directory\n")
            status = 1
        else:
            listed.append((path, file))
    folders = [path for path, file in listed if file.is_folder and "d" not in options]
    for path, file in listed:
        if path not in folders:
            shell.print(_line(shell, options, path, path, file))
    for at, path in enumerate(folders):
        if len(paths) > 1:
            shell.print(("\n" if at or len(listed) > len(folders) else "") + f"{path}:\n")
        _list_folder(shell, options, path)
    return status


def _follows(options: str) -> bool:
    """Whether links are followed that the command line names."""
    return "L" in options or not set(options) & set("dlin")


def _list_folder(shell: Shell, options: str, path: str) -> None:
    names = shell.files.list(path, shell.now)
    if "a" in options:
        names = [".", "..", *names]
    elif "A" not in options:
        names = [name for name in names if not name.startswith(".")]
    if not set(options) & set("iln"):
        shell.print("".join(f"{name}\n" for name in names))
        return
    lines, blocks = list[str](), 0
    for name in names:
        shell.work.spend(8)
        full = posixpath.normpath(posixpath.join(path, name))
        file = shell.files.find(full, shell.now, follow="L" in options) or File(mode=stat.S_IFDIR | 0o755)
        blocks += _blocks(file)
        lines.append(_line(shell, options, name, full, file))
    if "l" in options or "n" in options:
        shell.print(f"total {blocks}\n")
    shell.print("".join(lines))


def _line(shell: Shell, options: str, name: str, path: str, file: File) -> str:
    path = posixpath.normpath(posixpath.join(shell.files.folder, path))
    line = f"{crc32(path.encode(errors='surrogateescape')) % 10_000_000:7} " if "i" in options else ""
    if "l" not in options and "n" not in options:
        return f"{line}{name}\n"
    owner, group = str(file.uid), str(file.gid)
    if "n" not in options:
        owner = user_name(shell.image, file.uid) or owner
        group = group_name(shell.image, file.gid) or group
    size = _length(file)
    shown = f"{human(size):>9}" if "h" in options else f"{size:9}"
    changed = shell.files.changed_at(path, shell.now, follow=not file.is_link)
    name += f" -> {file.content}" if file.is_link else ""
    line += f"{stat.filemode(file.mode)} {2 if file.is_folder else 1:4} {owner:<8.8} {group:<8.8} {shown} "
    return f"{line}{_date(shell.now if changed is None else changed, shell.now)} {name}\n"


def _length(file: File) -> int:
    length = file.length
    if length is None:
        raise UnknownProgramError("ls")
    return length


def _blocks(file: File) -> int:
    """Return the KiB that a file takes on its disk."""
    return 0 if file.is_link else (_length(file) + 4095) // 4096 * 4


def human(size: int) -> str:
    """Return a number of bytes as `-h` shows it."""
    units = iter("KMGTPE")
    shown, unit = float(size), ""
    while shown >= 1024:
        shown, unit = shown / 1024, next(units)
    return f"{shown:.1f}{unit}" if unit else str(size)


def _date(changed: float, now: float) -> str:
    moment = datetime.fromtimestamp(changed, UTC)
    recent = f"{moment:%H:%M}" if abs(now - changed) < _HALF_A_YEAR else f"{moment.year:5}"
    return f"{moment:%b} {moment.day:2} {recent}"


def _stat(shell: Shell, words: list[str]) -> int:
    """Print what a format says of files."""
    follow = words[:1] == ["-L"]
    wanted, paths = _split_format(words[follow:])
    status = 0
    for path in paths:
        file = shell.files.find(path, shell.now, follow=follow)
        if file is None:
            shell.complain(f"stat: can't stat '{path}': No such file or directory\n")
            status = 1
            continue
        shell.print(re.sub(r"%(.)", partial(_shown, shell, path, file), wanted) + "\n")
    return status


def _split_format(words: list[str]) -> tuple[str, list[str]]:
    """Return the format, and the paths."""
    first, *rest = words or [""]
    if first == "-c" and rest:
        first, *rest = rest
    elif first.startswith("-c"):
        first = first.removeprefix("-c")
    else:
        raise UnknownProgramError("stat")
    if not rest or rest[0].startswith("-"):
        raise UnknownProgramError("stat")
    return first, rest


def _shown(shell: Shell, path: str, file: File, match: re.Match[str]) -> str:
    """Return what a letter of a format stands for."""
    letter = match.group(1)
    if letter == "U":
        return user_name(shell.image, file.uid) or "UNKNOWN"
    if letter == "G":
        return group_name(shell.image, file.gid) or "UNKNOWN"
    if letter == "s":
        return str(_length(file))
    values = {
        "n": path, "u": str(file.uid), "g": str(file.gid), "a": f"{stat.S_IMODE(file.mode):o}",
        "A": stat.filemode(file.mode), "f": f"{file.mode:x}", "%": "%",
    }  # fmt: skip
    if letter not in values:
        raise UnknownProgramError(f"stat %{letter}")
    return values[letter]


COMMANDS: Final[dict[str, Command]] = {"ls": _ls, "stat": _stat}
