"""All commands of the small shell, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs import agnhost, archives, consumer, sample_apiserver
from mooring.sandbox.programs.commands import (
    control,
    copies,
    digests,
    disks,
    files,
    kernel,
    links,
    listing,
    modes,
    network,
    surroundings,
    text,
    users,
)
from mooring.sandbox.programs.errors import UnknownProgramError

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command

_FOLDERS: Final = frozenset(("", "/bin", "/usr/bin", "/usr/local/bin"))
_COMMANDS: Final[dict[str, Command]] = {
    **control.COMMANDS,
    **text.COMMANDS,
    **files.COMMANDS,
    **copies.COMMANDS,
    **digests.COMMANDS,
    **disks.COMMANDS,
    **links.COMMANDS,
    **modes.COMMANDS,
    **listing.COMMANDS,
    **surroundings.COMMANDS,
    **kernel.COMMANDS,
    **users.COMMANDS,
    **network.COMMANDS,
    "tar": archives.tar,
    "consumer": consumer.run,
    sample_apiserver.IMAGE: sample_apiserver.run,
}


def find_command(name: str) -> Command:
    """Return the command by its name or path."""
    folder, _, base = name.rpartition("/")
    if base in agnhost.NAMES:
        return lambda shell, words: agnhost.run(shell, [name, *words])
    command = _COMMANDS.get(base) if folder in _FOLDERS else None
    if command is not None:
        return command
    if "/" not in name:
        raise UnknownProgramError(name)
    return lambda shell, words: control.run_file(shell, [name, *words])
