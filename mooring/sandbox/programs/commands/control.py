"""Commands that control a script: conditions, waiting, its end, and shells in a shell."""

from __future__ import annotations

import math
import posixpath
import re
import stat
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs.arithmetic import Arithmetic
from mooring.sandbox.programs.commands.arguments import find_if_known
from mooring.sandbox.programs.errors import ExitError, ForeverError, ReturnError, UnknownProgramError
from mooring.sandbox.programs.file import DENIED, NO_FOLDER, NOT_THERE, FileError
from mooring.sandbox.programs.user import EXECUTE, READ, WRITE

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command
    from mooring.sandbox.programs.shell import Shell

_RIGHTS: Final = {"-r": READ, "-w": WRITE, "-x": EXECUTE}
_KINDS: Final = {
    "-f": stat.S_IFREG, "-d": stat.S_IFDIR, "-b": stat.S_IFBLK, "-c": stat.S_IFCHR, "-p": stat.S_IFIFO,
    "-S": stat.S_IFSOCK,
}  # fmt: skip
_INTERPRETER: Final = re.compile(r"#!\s*(?:/usr)?/bin/(?:env\s+)?(\S+)")
_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_OPTIONS: Final = {"errexit": "e", "xtrace": "x", "nounset": "u", "pipefail": "pipefail"}
"""Options of a shell, by the names that `set -o` takes."""
_SPAN: Final = re.compile(r"(\d{1,12}(?:\.\d{0,9})?|\.\d{1,9})([smhd]?)")


def _true(shell: Shell, words: list[str]) -> int:
    return 0


def _false(shell: Shell, words: list[str]) -> int:
    return 1


def _test(shell: Shell, words: list[str]) -> int:
    negations = sum(1 for _ in takewhile("!".__eq__, words))
    if negations:
        status = _test(shell, words[negations:])
        return int(status == 0) if negations % 2 else status
    if len(words) <= 1:
        return int(not (words and words[0]))
    if len(words) == 2:
        return int(not _unary(shell, words[0], words[1]))
    if len(words) == 3:
        return int(not _binary(*words))
    raise UnknownProgramError("test")


def _unary(shell: Shell, operator: str, word: str) -> bool:
    if operator in ("-z", "-n"):
        return bool(word) == (operator == "-n")
    if operator in ("-L", "-h"):
        link = find_if_known(shell, word, follow=False)
        return link is not None and link.is_link
    if operator not in (*_RIGHTS, *_KINDS, "-e", "-s"):
        raise UnknownProgramError(f"test {operator}")
    file = find_if_known(shell, word)
    if file is None or operator == "-e":
        return file is not None
    if operator in _RIGHTS:
        return shell.files.user.may(file, _RIGHTS[operator])
    if operator == "-s":
        return file.content != ""
    return stat.S_IFMT(file.mode) == _KINDS[operator]


def _binary(left: str, operator: str, right: str) -> bool:
    if operator in ("=", "==", "!="):
        return (left == right) == (operator != "!=")
    numbers = {"-eq": "==", "-ne": "!=", "-lt": "<", "-le": "<=", "-gt": ">", "-ge": ">="}
    if operator not in numbers:
        raise UnknownProgramError(f"test {operator}")
    return bool(Arithmetic([left, numbers[operator], right]).value())


def _bracket(shell: Shell, words: list[str]) -> int:
    if not words or words[-1] not in ("]", "]]"):
        raise UnknownProgramError("[")
    return _test(shell, words[:-1])


def _expr(shell: Shell, words: list[str]) -> int:
    value = Arithmetic([word.lstrip("\\") for word in words]).value()
    shell.print(f"{value}\n")
    return int(value == 0)


def _sleep(shell: Shell, words: list[str]) -> int:
    total = 0.0
    for word in words:
        if word in ("inf", "infinity"):
            raise ForeverError
        match = _SPAN.fullmatch(word)
        if match is None:
            shell.complain(f"sleep: invalid number '{word}'\n")
            return 1
        total += float(match.group(1)) * _UNITS[match.group(2)]
    if not words:
        return 1
    shell.seconds += total
    return 0


def _cd(shell: Shell, words: list[str]) -> int:
    path = words[0] if words else "/"
    file = shell.files.find(path, shell.now)
    if file is None or not file.is_folder:
        shell.complain(f"/bin/sh: cd: can't cd to {path}: {NOT_THERE if file is None else NO_FOLDER}\n")
        return 1
    shell.files.folder = posixpath.normpath(posixpath.join(shell.files.folder, path))
    return 0


def _exit(shell: Shell, words: list[str]) -> int:
    raise ExitError(_exit_code(shell, words))


def _exit_code(shell: Shell, words: list[str]) -> int:
    if not words:
        return shell.status
    if not (words[0].isascii() and words[0].isdigit() and len(words[0]) <= 9):
        return 2
    return int(words[0]) % 256


def _exec(shell: Shell, words: list[str]) -> int:
    raise ExitError(shell.command(words))


def _export(shell: Shell, words: list[str]) -> int:
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            shell.variables[name] = value
        shell.exported.add(name)
    return 0


def _trap(shell: Shell, words: list[str]) -> int:
    """Keep the handler of the signal to stop; no other is sent."""
    script, signals = "".join(words[:1]), {word.removeprefix("SIG") for word in words[1:]}
    if {"EXIT", "ERR", "0"} & signals:
        raise UnknownProgramError("trap")
    if {"TERM", "15"} & signals:
        shell.term_handler = "" if script == "-" else script
    return 0


def _wait(shell: Shell, words: list[str]) -> int:
    if words:
        raise UnknownProgramError("wait")
    if shell.background_end == math.inf:
        raise ForeverError
    shell.seconds = max(shell.seconds, shell.background_end)
    return 0


def _sh(shell: Shell, words: list[str]) -> int:
    if words in ([], ["-s"], ["-"]):
        words = ["-c", "".join(shell.read_input())]
    flags, rest = "", list(words)
    while rest and rest[0].startswith("-"):
        flags += rest.pop(0)[1:]
    if set(flags) - set("ceux") or not rest:
        raise UnknownProgramError("sh")
    if "c" not in flags:
        return _run_script(shell, rest, frozenset(flags))
    with shell.begin_shell(rest[1:], frozenset(flags) - {"c"}):
        shell.script(rest[0])
    return shell.status


def _run_script(shell: Shell, words: list[str], options: frozenset[str] = frozenset()) -> int:
    """Run a file as a script."""
    try:
        script = shell.files.read(words[0], shell.now)
    except FileError as error:
        shell.complain(f"/bin/sh: can't open '{words[0]}': {error}\n")
        return 2
    with shell.begin_shell(words, options):
        shell.script(script)
    return shell.status


def run_file(shell: Shell, words: list[str]) -> int:
    """Run a program by its path: a script that something has written."""
    file = shell.files.find(words[0], shell.now)
    if file is None:
        shell.complain(f"/bin/sh: {words[0]}: not found\n")
        return 127
    if file.is_folder or not shell.files.user.may(file, EXECUTE):
        shell.complain(f"/bin/sh: {words[0]}: {DENIED}\n")
        return 126
    interpreter = _INTERPRETER.match(file.content or "")
    if interpreter and interpreter.group(1) not in ("sh", "bash", "ash", "dash"):
        raise UnknownProgramError(words[0])
    return _run_script(shell, words)


def _set(shell: Shell, words: list[str]) -> int:
    """Change options: those of one letter, and by name after `o`."""
    if not words:
        raise UnknownProgramError("set")
    rest = iter(words)
    for word in rest:
        names = {_OPTIONS.get(next(rest, ""), "") if letter == "o" else letter for letter in word[1:]}
        if word[:1] not in ("-", "+") or not names or names - {*_OPTIONS.values()}:
            raise UnknownProgramError("set")
        shell.options = shell.options | names if word[0] == "-" else shell.options - names
    return 0


def _return(shell: Shell, words: list[str]) -> int:
    if not shell.is_in_function:
        raise UnknownProgramError("return")
    raise ReturnError(_exit_code(shell, words))


COMMANDS: Final[dict[str, Command]] = {
    ":": _true, "true": _true, "false": _false, "test": _test, "[": _bracket, "[[": _bracket, "expr": _expr,
    "cd": _cd, "sleep": _sleep, "wait": _wait, "exit": _exit, "exec": _exec, "export": _export, "trap": _trap,
    "set": _set, "return": _return, "sync": _true,
    "sh": _sh, "bash": _sh, "ash": _sh, "dash": _sh,
}  # fmt: skip
