"""Commands that encode files and compute their checksums."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs.commands.arguments import split_options
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import FileError

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command
    from mooring.sandbox.programs.shell import Shell

_WIDTH: Final = 76


def _base64(shell: Shell, words: list[str]) -> int:
    options, paths = split_options(["-d" if word == "--decode" else word for word in words])
    if options not in ("", "d", "w0") or len(paths) > 1:
        raise UnknownProgramError("base64")
    data = _read(shell, "base64", paths[0] if paths else "-")
    if data is None:
        return 1
    if options == "d":
        try:
            decoded = base64.b64decode(data)
        except binascii.Error:
            shell.complain("base64: truncated input\n")
            return 1
        shell.print(decoded.decode(errors="surrogateescape"))
        return 0
    text = base64.b64encode(data).decode()
    width = len(text) if options else _WIDTH
    lines = [text[at : at + width] for at in range(0, len(text), width or 1)]
    shell.print("\n".join(lines) + ("" if options else "\n"))
    return 0


def _checksum(name: str, digest: Callable[[bytes], str], shell: Shell, words: list[str]) -> int:
    if any(word.startswith("-") and word != "-" for word in words):
        raise UnknownProgramError(name)
    status = 0
    for path in words or ["-"]:
        data = _read(shell, name, path)
        if data is None:
            status = 1
        else:
            shell.print(f"{digest(data)}  {path}\n")
    return status


def _read(shell: Shell, name: str, path: str) -> bytes | None:
    """Return the content of a file, or the input; None after an error message."""
    try:
        text = "".join(shell.read_input()) if path == "-" else shell.files.read(path, shell.now)
    except FileError as error:
        shell.complain(f"{name}: can't open '{path}': {error}\n")
        return None
    shell.work.spend(len(text) // 8)
    return text.encode(errors="surrogateescape")


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


COMMANDS: Final[dict[str, Command]] = {
    "base64": _base64,
    "md5sum": partial(_checksum, "md5sum", _md5),
    "sha256sum": partial(_checksum, "sha256sum", _sha256),
}
