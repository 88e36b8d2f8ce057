"""Commands that print, filter and count text."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs.commands.arguments import attempt, split_options
from mooring.sandbox.programs.errors import ForeverError, UnknownProgramError
from mooring.sandbox.programs.file import FileError

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command
    from mooring.sandbox.programs.shell import Shell

_PLAIN: Final = re.compile(r"\^?[\w \-/:=,@%#!]+\$?")
_BLANK: Final = r"^\s*$"
_ALTERNATIVES: Final = re.compile(rf"\(?{_PLAIN.pattern}(\|{_PLAIN.pattern})*\)?")
_ESCAPE: Final = re.compile(r"\\([ntr\\])")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


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


def _cat(shell: Shell, words: list[str]) -> int:
    if words in ([], ["-"]):
        for text in shell.read_input():
            shell.print(text)
        return 0
    if any(word.startswith("-") for word in words):
        raise UnknownProgramError("cat")
    status = 0
    for word in words:
        prefix = f"cat: can't open '{word}': "
        status |= attempt(shell, prefix, partial(_print_file, shell, word))
    return status


def _print_file(shell: Shell, path: str) -> None:
    shell.print(shell.files.read(path, shell.now))


def _wc(shell: Shell, words: list[str]) -> int:
    options, paths = split_options(words)
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


def _count(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 6):
        raise UnknownProgramError(word)
    return int(word)


def _tail(shell: Shell, words: list[str]) -> int:
    """Print the last lines of a file, or from one on."""
    if words and words[0] in ("-f", "-F", "--follow") and words[1:] == ["/dev/null"]:
        raise ForeverError
    number, paths = "10", words
    if words[:1] == ["-n"] and len(words) > 1:
        number, paths = words[1], words[2:]
    elif words and re.fullmatch(r"-n?\d{1,6}|-n\+\d{1,6}", words[0]):
        number, paths = words[0].lstrip("-n"), words[1:]
    if any(path.startswith("-") for path in paths) or len(paths) > 1:
        raise UnknownProgramError("tail")
    count = _count(number.removeprefix("+"))
    start = max(count - 1, 0) if number.startswith("+") else None

    def select(text: str) -> str:
        lines = text.splitlines(keepends=True)
        return "".join(lines[max(len(lines) - count, 0) if start is None else start :])

    return _filter(shell, "tail", paths, select)


def _sort(shell: Shell, words: list[str]) -> int:
    if any(word.startswith("-") for word in words) or len(words) > 1:
        raise UnknownProgramError("sort")
    return _filter(
        shell, "sort", words, lambda text: "".join(f"{line}\n" for line in sorted(text.splitlines()))
    )


def _grep(shell: Shell, words: list[str]) -> int:
    """Find plain text, perhaps at the beginning or the end of lines."""
    options, rest = split_options(words)
    if set(options) - set("qFviE") or not 1 <= len(rest) <= 2:
        raise UnknownProgramError("grep")
    if rest[0] != _BLANK and not (_ALTERNATIVES if "E" in options else _PLAIN).fullmatch(rest[0]):
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
    try:
        text = shell.files.read(paths[0], shell.now) if paths else "".join(shell.read_input())
    except FileError as error:
        shell.complain(f"{name}: {paths[0]}: {error}\n")
        return 1
    shell.work.spend(len(text) // 8)
    shell.print(change(text))
    return 0


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


def _seq(shell: Shell, words: list[str]) -> int:
    if not all(word.isascii() and word.isdigit() and len(word) <= 4 for word in words) or len(words) not in (
        1,
        2,
    ):
        raise UnknownProgramError("seq")
    first, last = (1, int(words[0])) if len(words) == 1 else (int(words[0]), int(words[1]))
    shell.print("".join(f"{number}\n" for number in range(first, last + 1)))
    return 0


COMMANDS: Final[dict[str, Command]] = {
    "echo": _echo, "printf": _printf, "cat": _cat, "wc": _wc, "head": _head, "tail": _tail, "sort": _sort,
    "grep": _grep, "cut": _cut, "awk": _awk, "hexdump": _hexdump, "seq": _seq,
}  # fmt: skip
