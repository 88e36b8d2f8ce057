"""Commands that create, remove and find files."""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs.commands.arguments import attempt, find_if_known, split_options
from mooring.sandbox.programs.commands.modes import changed_mode
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import LONGEST, NOT_THERE, File, FileError
from mooring.sandbox.programs.files import LONGEST_PATH
from mooring.sandbox.programs.patterns import compile_pattern
from mooring.sandbox.programs.work import PER_UNIT, Work

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command
    from mooring.sandbox.programs.shell import Shell

    _Condition = Callable[[str, File], bool]

_FOLDER: Final = stat.S_IFDIR | 0o755
_KINDS: Final = {"f": stat.S_IFREG, "d": stat.S_IFDIR, "l": stat.S_IFLNK}
"""What `find -type` looks for."""
_NUMBER: Final = re.compile(r"(\d{1,8})([kKMG]?)")
_UNITS: Final = {"": 1, "k": 1 << 10, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_DD: Final = frozenset(("if", "of", "bs", "count", "conv", "iflag", "oflag"))


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
        file = shell.files.find(path, shell.now, follow=False)
        if file is None and "f" in options:
            continue
        if file is not None and file.is_folder and not set(options) & {"r", "R"}:
            shell.complain(f"rm: '{path}' is a directory\n")
            status = 1
            continue
        status |= attempt(shell, f"rm: can't remove '{path}': ", partial(shell.files.remove, path, shell.now))
    return status


def _mkdir(shell: Shell, words: list[str]) -> int:
    options, paths, mode = _read_folder_options(words)
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
                    partial(shell.files.make, folder, shell.now, mode if folder == path else _FOLDER),
                )
            elif "p" not in options:
                shell.complain(f"mkdir: can't create directory '{path}': File exists\n")
                status = 1
    return status


def _read_folder_options(words: list[str]) -> tuple[str, list[str], int]:
    """Return options of one letter, the paths, and the mode that `-m` names; options may follow paths."""
    options, paths, mode = "", list[str](), _FOLDER
    rest = iter(words)
    for word in rest:
        if word == "-m":
            mode = stat.S_IFDIR | changed_mode(next(rest, ""), File(mode=_FOLDER))
        elif word.startswith("-") and not set(word[1:]) - {"p"}:
            options += word[1:]
        elif word.startswith("-"):
            raise UnknownProgramError("mkdir")
        else:
            paths.append(word)
    return options, paths, mode


def _mknod(shell: Shell, words: list[str]) -> int:
    """Create a device or a pipe."""
    kinds = {"b": stat.S_IFBLK, "c": stat.S_IFCHR, "u": stat.S_IFCHR, "p": stat.S_IFIFO}
    if len(words) not in (2, 4) or words[1] not in kinds or (len(words) == 2) != (words[1] == "p"):
        raise UnknownProgramError("mknod")
    path, mode = words[0], kinds[words[1]] | 0o644
    if shell.files.find(path, shell.now) is not None:
        shell.complain(f"mknod: {path}: File exists\n")
        return 1
    return attempt(shell, f"mknod: {path}: ", partial(shell.files.make, path, shell.now, mode))


def _dd(shell: Shell, words: list[str]) -> int:
    """Copy blocks of a file, a device or the input."""
    given = dict(word.split("=", 1) for word in words if "=" in word)
    if len(given) < len(words) or set(given) - _DD:
        raise UnknownProgramError("dd")
    source, target = given.get("if"), given.get("of")
    try:
        data, size = _read_blocks(shell, given)
    except FileError as error:
        shell.complain(f"dd: can't open '{source}': {error}\n")
        return 1
    if target is None:
        if data is None:
            raise UnknownProgramError("dd")
        shell.print(data)
    else:
        write = partial(shell.files.write, target, data, shell.now, size=size if data is None else None)
        if attempt(shell, f"dd: can't open '{target}': ", write):
            return 1
    full, rest = divmod(size, _read_number(given.get("bs", "512")) or 1)
    records = f"{full}+{int(rest > 0)}"
    shell.complain(f"{records} records in\n{records} records out\n")
    return 0


def _read_blocks(shell: Shell, given: dict[str, str]) -> tuple[str | None, int]:
    """Return what is copied, None where it is too large to keep, and how many bytes it has. Raises
    FileError."""
    source, block = given.get("if", ""), _read_number(given.get("bs", "512"))
    most = block * _read_number(given["count"]) if "count" in given else None
    if source == "/dev/zero":
        if most is None:
            raise UnknownProgramError("dd")
        if most > LONGEST:
            return None, most
        shell.work.spend(most // PER_UNIT)
        return "\0" * most, most
    if source == "/dev/null":
        return "", 0
    text = shell.files.read(source, shell.now) if source else _read_input(shell)
    shell.work.spend(len(text) // PER_UNIT)
    data = text.encode(errors="surrogateescape")[:most]
    return data.decode(errors="surrogateescape"), len(data)


def _read_number(word: str) -> int:
    match = _NUMBER.fullmatch(word)
    if match is None:
        raise UnknownProgramError("dd")
    return int(match.group(1)) * _UNITS[match.group(2)]


def _read_input(shell: Shell) -> str:
    if shell.input is None:
        raise UnknownProgramError("dd")
    text, shell.input = shell.input, ""
    return text


def _find(shell: Shell, words: list[str]) -> int:
    """Print the files below folders that match one of several conditions."""
    count = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    paths, choices = words[:count] or ["."], _read_choices(shell, words[count:])
    status = 0
    for path in paths:
        if shell.files.find(path, shell.now, follow=False) is None:
            shell.complain(f"find: {path}: {NOT_THERE}\n")
            status = 1
            continue
        for found, file in _walk(shell, path):
            if any(all(matches(found, file) for matches in choice) for choice in choices):
                shell.print(f"{found}\n")
    return status


def _read_choices(shell: Shell, words: list[str]) -> list[list[_Condition]]:
    choices: list[list[_Condition]] = [[]]
    rest = iter(words)
    for word in rest:
        if word in ("-o", "-or"):
            choices.append([])
        elif word == "-name":
            choices[-1].append(partial(_has_name, compile_pattern(next(rest, ""), shell.work)))
        elif word == "-type" and (kind := next(rest, "")) in _KINDS:
            choices[-1].append(partial(_is_kind, kind, shell.work))
        else:
            raise UnknownProgramError("find")
    return choices


def _has_name(matches: Callable[[str], bool], path: str, file: File) -> bool:
    return matches(posixpath.basename(path))


def _is_kind(kind: str, work: Work, path: str, file: File) -> bool:
    work.spend(1)
    return stat.S_IFMT(file.mode) == _KINDS[kind]


def _walk(shell: Shell, path: str) -> Iterator[tuple[str, File]]:
    """Yield a file, and all that are below it."""
    file = shell.files.find(path, shell.now, follow=False)
    if file is None:
        return
    shell.work.spend(4)
    yield path, file
    if file.is_folder:
        for name in shell.files.list(path, shell.now):
            yield from _walk(shell, posixpath.join(path, name))


COMMANDS: Final[dict[str, Command]] = {
    "touch": _touch,
    "rm": _rm,
    "mkdir": _mkdir,
    "dd": _dd,
    "mknod": _mknod,
    "find": _find,
}
