"""The commands of the small shell: those whose effect is known without running them."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs import agnhost, archives
from mooring.sandbox.programs.arithmetic import Arithmetic
from mooring.sandbox.programs.environment import ANY, ANY_SERVICE, may_be_set
from mooring.sandbox.programs.errors import ExitError, ForeverError, UnknownProgramError
from mooring.sandbox.programs.files import LONGEST_PATH, NO_FOLDER, NOT_THERE, READ, File, FileError
from mooring.sandbox.programs.shell import Shell

if TYPE_CHECKING:
    Command = Callable[[Shell, list[str]], int]

_FOLDERS: Final = frozenset(("", "/bin", "/usr/bin", "/usr/local/bin"))
_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN: Final = re.compile(r"(\d{1,12}(?:\.\d{0,9})?|\.\d{1,9})([smhd]?)")
_DATE: Final = "%a %b %e %H:%M:%S UTC %Y"
_DIRECTIVE: Final = re.compile("%(.?)")
_DIRECTIVES: Final = frozenset("aAbBdeFHIjklmMnpsSTuyYZ%")
_LAST_KNOWN_USER, _NOBODY = 1000, 65534
_NETWORK_CODES: Final = {"nslookup": 1, "wget": 1, "curl": 7}
"""The exit codes of programs that need a network, for a connection that fails."""
_PLAIN: Final = re.compile(r"\^?[\w \-/:=,@%#!]+\$?")
_ALTERNATIVES: Final = re.compile(rf"\(?{_PLAIN.pattern}(\|{_PLAIN.pattern})*\)?")
_ESCAPE: Final = re.compile(r"\\([ntr\\])")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


def find_command(name: str) -> Command:
    """Return the command by its name or path."""
    folder, _, base = name.rpartition("/")
    if base in agnhost.NAMES:
        return lambda shell, words: agnhost.run(shell, [name, *words])
    command = COMMANDS.get(base) if folder in _FOLDERS else None
    if command is None:
        raise UnknownProgramError(name)
    return command


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


def _echo(shell: Shell, words: list[str]) -> int:
    flags = "".join(takewhile(re.compile(r"-[neE]+").fullmatch, words))
    newline, escapes = "n" not in flags, "e" in flags
    text = " ".join(words[flags.count("-") :])
    shell.print((_unescape(text) if escapes else text) + "\n" * newline)
    return 0


def _printf(shell: Shell, words: list[str]) -> int:
    if not words:
        return 1
    template, values = _unescape(words[0]), iter(words[1:])
    if re.search(r"%[^sd%]", template):
        raise UnknownProgramError("printf")
    shell.print(re.sub(r"%([sd%])", lambda m: "%" if m.group(1) == "%" else next(values, ""), template))
    return 0


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES[match.group(1)], text)


def _date(shell: Shell, words: list[str]) -> int:
    words = [word for word in words if word != "-u"]
    shown = words[0][1:] if words and words[0].startswith("+") else _DATE
    if shell.started is None or len(words) > 1 or (words and not words[0].startswith("+")):
        raise UnknownProgramError("date")
    if set(_DIRECTIVE.findall(shown)) - _DIRECTIVES:
        raise UnknownProgramError("date")
    now = shell.started + shell.seconds
    text = shown.replace("%s", str(int(now)))
    try:
        shell.print(datetime.fromtimestamp(now, UTC).strftime(text) + "\n")
    except (ValueError, OverflowError, OSError):  # after the year 9999, or not text
        raise UnknownProgramError("date") from None
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
    if not words:
        raise ExitError(shell.status)
    if not (words[0].isascii() and words[0].isdigit() and len(words[0]) <= 9):
        raise ExitError(2)
    raise ExitError(int(words[0]) % 256)


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
    if operator not in ("-e", "-f", "-d", "-r", "-s"):
        raise UnknownProgramError(f"test {operator}")
    file = _find(shell, word)
    if file is None or operator == "-e":
        return file is not None
    if operator == "-r":
        return shell.files.user.may(file, READ)
    if operator == "-s":
        return file.content != ""
    return file.is_folder == (operator == "-d")


def _find(shell: Shell, path: str) -> File | None:
    """Return a file; None also for one that may be in the image: scripts test for files that they write."""
    try:
        return shell.files.find(path, shell.now)
    except UnknownProgramError:
        return None


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


def _touch(shell: Shell, words: list[str]) -> int:
    if not words or any(word.startswith("-") for word in words):
        raise UnknownProgramError("touch")
    status = 0
    for word in words:
        if _find(shell, word) is None:
            status |= _try(shell, f"touch: {word}: ", partial(shell.files.write, word, "", shell.now))
    return status


def _rm(shell: Shell, words: list[str]) -> int:
    options, paths = _options(words)
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
        status |= _try(shell, f"rm: can't remove '{path}': ", partial(shell.files.remove, path, shell.now))
    return status


def _mkdir(shell: Shell, words: list[str]) -> int:
    options, paths = _options(words)
    if set(options) - {"p"}:
        raise UnknownProgramError("mkdir")
    status = 0
    for path in paths:
        if len(path) > LONGEST_PATH:
            raise UnknownProgramError("mkdir")
        parts = path.split("/")
        folders = ["/".join(parts[: at + 1]) for at in range(len(parts))] if "p" in options else [path]
        for folder in filter(None, folders):
            if _find(shell, folder) is None:
                status |= _try(
                    shell,
                    f"mkdir: can't create directory '{path}': ",
                    partial(shell.files.make_folder, folder, shell.now),
                )
            elif "p" not in options:
                shell.complain(f"mkdir: can't create directory '{path}': File exists\n")
                status = 1
    return status


def _cat(shell: Shell, words: list[str]) -> int:
    if not words and shell.input is not None:
        shell.print(shell.input)
        return 0
    if not words or any(word.startswith("-") for word in words):
        raise UnknownProgramError("cat")
    status = 0
    for word in words:
        prefix = f"cat: can't open '{word}': "
        status |= _try(shell, prefix, partial(_print_file, shell, word))
    return status


def _wc(shell: Shell, words: list[str]) -> int:
    options, paths = _options(words)
    if options not in ("l", "c") or len(paths) > 1:
        raise UnknownProgramError("wc")
    return _filter(
        shell,
        "wc",
        paths,
        lambda text: (
            f"{text.count(chr(10)) if options == 'l' else len(text.encode(errors='surrogateescape'))}"
            + (f" {paths[0]}\n" if paths else "\n")
        ),
    )


def _head(shell: Shell, words: list[str]) -> int:
    count, paths = 10, words
    if words[:1] == ["-n"] and len(words) > 1:
        count, paths = _count(words[1]), words[2:]
    elif words and re.fullmatch(r"-n?\d{1,6}", words[0]):
        count, paths = _count(words[0].lstrip("-n")), words[1:]
    if any(path.startswith("-") for path in paths) or len(paths) > 1:
        raise UnknownProgramError("head")
    return _filter(shell, "head", paths, lambda text: "".join(text.splitlines(keepends=True)[:count]))


def _sort(shell: Shell, words: list[str]) -> int:
    if any(word.startswith("-") for word in words) or len(words) > 1:
        raise UnknownProgramError("sort")
    return _filter(
        shell, "sort", words, lambda text: "".join(f"{line}\n" for line in sorted(text.splitlines()))
    )


def _grep(shell: Shell, words: list[str]) -> int:
    """Find plain text, perhaps at the beginning or the end of lines."""
    options, rest = _options(words)
    if set(options) - set("qFviE") or not 1 <= len(rest) <= 2:
        raise UnknownProgramError("grep")
    if not (_ALTERNATIVES if "E" in options else _PLAIN).fullmatch(rest[0]):
        raise UnknownProgramError("grep")
    pattern = rest[0] if "F" not in options else re.escape(rest[0])
    find = re.compile(pattern, re.IGNORECASE if "i" in options else 0)
    hits: list[str] = []

    def select(text: str) -> str:
        hits.extend(line for line in text.splitlines() if (find.search(line) is None) == ("v" in options))
        return "" if "q" in options else "".join(f"{line}\n" for line in hits)

    return _filter(shell, "grep", rest[1:], select) * 2 or int(not hits)


def _cut(shell: Shell, words: list[str]) -> int:
    """Print one field of each line; fields are separated by tabs or by the character of `-d`."""
    match = re.fullmatch(r"(?:-d ?(.) )?-f ?([1-9])", " ".join(words[:4]))
    if match is None:
        raise UnknownProgramError("cut")
    separator, field = match.group(1) or "\t", int(match.group(2))

    def pick(line: str) -> str:
        fields = line.split(separator)
        return line if len(fields) == 1 else "".join(fields[field - 1 : field])

    return _filter(shell, "cut", [], lambda text: "".join(f"{pick(line)}\n" for line in text.splitlines()))


def _awk(shell: Shell, words: list[str]) -> int:
    """Print one column."""
    match = re.fullmatch(r"\s*\{\s*print \$([1-9])\s*;?\s*\}\s*", words[0]) if words else None
    if match is None or len(words) > 2:
        raise UnknownProgramError("awk")
    column = int(match.group(1)) - 1

    def pick(text: str) -> str:
        rows = (line.split() for line in text.splitlines())
        return "".join(f"{row[column] if column < len(row) else ''}\n" for row in rows)

    return _filter(shell, "awk", words[1:], pick)


def _filter(shell: Shell, name: str, paths: list[str], change: Callable[[str], str]) -> int:
    """Print a file, or without one the input, changed."""
    if not paths and shell.input is None:
        raise UnknownProgramError(name)
    try:
        text = shell.files.read(paths[0], shell.now) if paths else shell.input or ""
    except FileError as error:
        shell.complain(f"{name}: {paths[0]}: {error}\n")
        return 1
    shell.work.spend(len(text) // 8)
    shell.print(change(text))
    return 0


def _count(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 6):
        raise UnknownProgramError(word)
    return int(word)


def _print_file(shell: Shell, path: str) -> None:
    shell.print(shell.files.read(path, shell.now))


def _ls(shell: Shell, words: list[str]) -> int:
    options, paths = _options(words)
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


def _hexdump(shell: Shell, words: list[str]) -> int:
    if len(words) != 2 or words[0] != "-C":
        raise UnknownProgramError("hexdump")
    try:
        text = shell.files.read(words[1], shell.now)
    except FileError as error:
        shell.complain(f"hexdump: {words[1]}: {error}\n")
        return 1
    data = text.encode(errors="surrogateescape")
    shell.work.spend(len(data))
    for start in range(0, len(data), 16):
        line = data[start : start + 16]
        digits = [f"{byte:02x}" for byte in line] + ["  "] * (16 - len(line))
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
        shell.print(f"{start:08x}  {' '.join(digits[:8])}  {' '.join(digits[8:])}  |{shown}|\n")
    if data:
        shell.print(f"{len(data):08x}\n")
    return 0


def _try(shell: Shell, prefix: str, act: Callable[[], None]) -> int:
    try:
        act()
    except FileError as error:
        shell.complain(f"{prefix}{error}\n")
        return 1
    return 0


def _options(words: list[str]) -> tuple[str, list[str]]:
    """Separate options of one letter from what follows them."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        at += 1
    if any(word.startswith("--") for word in words[:at]):
        raise UnknownProgramError("long options")
    return "".join(word[1:] for word in words[:at]), words[at + (words[at : at + 1] == ["--"]) :]


def _env(shell: Shell, words: list[str]) -> int:
    if words:
        raise UnknownProgramError("env")
    _print_environment(shell)
    return 0


def _printenv(shell: Shell, words: list[str]) -> int:
    if not words:
        _print_environment(shell)
    status = 0
    for word in words:
        value = shell.variables.get(word) if word in shell.exported else None
        if value is not None:
            shell.print(f"{value}\n")
        elif word in shell.variables or may_be_set(word, shell.variables) or not shell.knows_image:
            raise UnknownProgramError("printenv")
        else:
            status = 1
    return status


def _print_environment(shell: Shell) -> None:
    """Print all variables, of an image that is known to set none of its own."""
    names = [name for name in shell.variables if name in shell.exported]
    if not shell.knows_image or any(name in shell.variables for name in (ANY, ANY_SERVICE)):
        raise UnknownProgramError("env")
    for name in names:
        value = shell.variables[name]
        if value is None:
            raise UnknownProgramError("env")
        shell.print(f"{name}={value}\n")


def _id(shell: Shell, words: list[str]) -> int:
    user = shell.files.user
    if words in (["-u"], ["-g"]):
        shell.print(f"{user.uid if words == ['-u'] else user.gid}\n")
        return 0
    if words or not shell.knows_image or user.uid <= _LAST_KNOWN_USER or user.uid == _NOBODY:
        raise UnknownProgramError("id")  # the image has names for users and groups
    groups = [f"{group}(root)" if group == 0 else str(group) for group in (user.gid, *sorted(user.groups))]
    shell.print(f"uid={user.uid} gid={groups[0]} groups={','.join(groups)}\n")
    return 0


def _pwd(shell: Shell, words: list[str]) -> int:
    if words or not (shell.knows_image or shell.files.folder != "/"):
        raise UnknownProgramError("pwd")
    shell.print(f"{shell.files.folder}\n")
    return 0


def _hostname(shell: Shell, words: list[str]) -> int:
    name = shell.variables.get("HOSTNAME")
    if words == ["-f"]:
        name = _full_name(shell, name)
    elif words:
        raise UnknownProgramError("hostname")
    if name is None:
        raise UnknownProgramError("hostname")
    shell.print(f"{name}\n")
    return 0


def _full_name(shell: Shell, name: str | None) -> str | None:
    """Return the first name of the host in /etc/hosts; None if it is not known."""
    try:
        lines = shell.files.read("/etc/hosts", shell.now).splitlines()
    except FileError:
        return None
    found = [names for _, *names in filter(None, map(str.split, lines)) if name in names]
    return found[0][0] if found else None


def _sysctl(shell: Shell, words: list[str]) -> int:
    """Print kernel parameters that the pod sets; others are not known."""
    if not words or any(not re.fullmatch(r"[\w./-]+", word) or word.startswith("-") for word in words):
        raise UnknownProgramError("sysctl")
    for word in words:
        path = word.replace(".", "/")
        value = shell.files.read(f"/proc/sys/{path}", shell.now).rstrip("\n")
        shell.print(f"{path.replace('/', '.')} = {value}\n")
    return 0


def _network(shell: Shell, name: str) -> int:
    """Fail, except where a script waits for success: it would wait forever for what a cluster would have."""
    if shell.is_waiting:
        raise UnknownProgramError(name)
    shell.complain(f"{name}: no network runs in a sandbox cluster\n")
    return _NETWORK_CODES[name]


def _tail(shell: Shell, words: list[str]) -> int:
    if words and words[0] in ("-f", "-F", "--follow") and words[1:] == ["/dev/null"]:
        raise ForeverError
    raise UnknownProgramError("tail")


def _seq(shell: Shell, words: list[str]) -> int:
    if not all(word.isascii() and word.isdigit() and len(word) <= 4 for word in words) or len(words) not in (
        1,
        2,
    ):
        raise UnknownProgramError("seq")
    first, last = (1, int(words[0])) if len(words) == 1 else (int(words[0]), int(words[1]))
    shell.print("".join(f"{number}\n" for number in range(first, last + 1)))
    return 0


def _sh(shell: Shell, words: list[str]) -> int:
    if words in ([], ["-s"], ["-"]) and shell.input is not None:
        words, shell.input = ["-c", shell.input], ""
    flags, rest = "", list(words)
    while rest and rest[0].startswith("-"):
        flags += rest.pop(0)[1:]
    if "c" not in flags or set(flags) - set("ceux") or not rest:
        raise UnknownProgramError("sh")
    if "x" in flags or ("e" in flags and any(char in rest[0] for char in ";\n")):
        raise UnknownProgramError("sh")  # traces, and ends at the first failure
    status = shell.status = 0
    try:
        status = shell.script(rest[0])
    except ExitError as ended:
        status = ended.code
    return status


def _true(shell: Shell, words: list[str]) -> int:
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


def _false(shell: Shell, words: list[str]) -> int:
    return 1


def _exec(shell: Shell, words: list[str]) -> int:
    raise ExitError(shell.command(words))


def _export(shell: Shell, words: list[str]) -> int:
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            shell.variables[name] = value
        shell.exported.add(name)
    return 0


COMMANDS: Final[dict[str, Command]] = {
    name: lambda shell, _, name=name: _network(shell, name) for name in _NETWORK_CODES
} | {
    ":": _true, "true": _true, "false": _false, "cd": _cd, "exit": _exit, "exec": _exec, "export": _export,
    "trap": _trap, "wait": _wait,
    "sleep": _sleep, "echo": _echo, "printf": _printf, "test": _test, "[": _bracket, "[[": _bracket,
    "expr": _expr, "date": _date, "touch": _touch, "rm": _rm, "mkdir": _mkdir, "cat": _cat,
    "ls": _ls, "hexdump": _hexdump, "tail": _tail, "seq": _seq, "env": _env, "printenv": _printenv, "id": _id,
    "wc": _wc, "head": _head, "sort": _sort, "grep": _grep, "awk": _awk, "cut": _cut, "pwd": _pwd,
    "hostname": _hostname, "sysctl": _sysctl,
    "tar": archives.tar, "sh": _sh, "bash": _sh, "ash": _sh, "dash": _sh,
}  # fmt: skip
