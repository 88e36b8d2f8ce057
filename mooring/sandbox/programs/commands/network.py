"""Commands that need a network."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs.errors import UnknownProgramError

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command
    from mooring.sandbox.programs.shell import Shell

_NETWORK_CODES: Final = {"nslookup": 1, "wget": 1, "curl": 7}
"""The exit codes of programs that need a network, for a connection that fails."""


def _network(name: str, shell: Shell, words: list[str]) -> int:
    """Fail, except where a script waits for success: it would wait forever for what a cluster would have."""
    if shell.is_waiting:
        raise UnknownProgramError(name)
    shell.complain(f"{name}: no network runs in a sandbox cluster\n")
    return _NETWORK_CODES[name]


COMMANDS: Final[dict[str, Command]] = {name: partial(_network, name) for name in _NETWORK_CODES}
