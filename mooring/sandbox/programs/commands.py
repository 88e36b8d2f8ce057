"""The commands of the small shell: those whose effect is known without running them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs.shell import Arithmetic, ExitError, ForeverError, Shell, UnknownProgramError

if TYPE_CHECKING:
    Command = Callable[[Shell, list[str]], int]

_FOLDERS: Final = frozenset(("", "/bin", "/usr/bin", "/usr/local/bin"))
_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN: Final = re.compile(r"(\d{1,12}(?:\.\d{0,9})?|\.\d{1,9})([smhd]?)")
_DATE: Final = "%a %b %e %H:%M:%S UTC %Y"
_DIRECTIVE: Final = re.compile("%(.?)")
_DIRECTIVES: Final = frozenset("aAbBdeFHIjklmMnpsSTuyYZ%")
_ESCAPE: Final = re.compile(r"\\([ntr\\])")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


def find_command(name: str) -> Command:
    """Return the command by its name or path."""
    folder, _, base = name.rpartition("/")
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
            shell.print(f"sleep: invalid number '{word}'\n")
            return 1
        total += float(match.group(1)) * _UNITS[match.group(2)]
    if not words:
        return 1
    shell.seconds += total
    return 0


def _echo(shell: Shell, words: list[str]) -> int:
    newline, escapes = True, False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        newline, escapes = newline and "n" not in words[0], escapes or "e" in words[0]
        words = words[1:]
    text = " ".join(words)
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
    shell.print(datetime.fromtimestamp(now, UTC).strftime(text) + "\n")
    return 0


def _exit(shell: Shell, words: list[str]) -> int:
    if not words:
        raise ExitError(shell.status)
    if not (words[0].isascii() and words[0].isdigit() and len(words[0]) <= 9):
        raise ExitError(2)
    raise ExitError(int(words[0]) % 256)


def _test(shell: Shell, words: list[str]) -> int:
    if words and words[0] == "!":
        return int(_test(shell, words[1:]) == 0)
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
    if operator in ("-e", "-f", "-r"):
        return word in shell.files
    if operator == "-s":
        return bool(shell.files.get(word))
    raise UnknownProgramError(f"test {operator}")


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
    for word in words:
        if word.startswith("-"):
            raise UnknownProgramError("touch")
        shell.files.setdefault(word, "")
    return 0


def _cat(shell: Shell, words: list[str]) -> int:
    if not words or any(word not in shell.files for word in words):
        raise UnknownProgramError("cat")  # a file of the image or of a volume
    shell.print("".join(shell.files[word] for word in words))
    return 0


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


def _false(shell: Shell, words: list[str]) -> int:
    return 1


def _exec(shell: Shell, words: list[str]) -> int:
    raise ExitError(shell.command(words))


def _export(shell: Shell, words: list[str]) -> int:
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            shell.variables[name] = value
    return 0


COMMANDS: Final[dict[str, Command]] = {
    ":": _true, "true": _true, "false": _false, "exit": _exit, "exec": _exec, "export": _export,
    "sleep": _sleep, "echo": _echo, "printf": _printf, "test": _test, "[": _bracket, "[[": _bracket,
    "expr": _expr, "date": _date, "touch": _touch, "cat": _cat, "tail": _tail, "seq": _seq,
    "sh": _sh, "bash": _sh, "ash": _sh, "dash": _sh,
}  # fmt: skip
