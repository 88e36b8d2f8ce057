"""Commands that show what a container runs in: its variables, folder, host name and time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs.environment import ANY, ANY_SERVICE, may_be_set
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import FileError

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command
    from mooring.sandbox.programs.shell import Shell

_DATE: Final = "%a %b %e %H:%M:%S UTC %Y"
_DIRECTIVE: Final = re.compile("%(.?)")
_DIRECTIVES: Final = frozenset("aAbBdeFHIjklmMnpsSTuyYZ%")


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


COMMANDS: Final[dict[str, Command]] = {
    "env": _env, "printenv": _printenv, "pwd": _pwd, "hostname": _hostname,
    "date": _date,
}  # fmt: skip
