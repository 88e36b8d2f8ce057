"""What commands have in common: how they read arguments and report failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import File, FileError

if TYPE_CHECKING:
    from mooring.sandbox.programs.shell import Shell

    Command = Callable[[Shell, list[str]], int]


def split_options(words: list[str]) -> tuple[str, list[str]]:
    """Separate options of one letter from what follows them."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        at += 1
    if any(word.startswith("--") for word in words[:at]):
        raise UnknownProgramError("long options")
    return "".join(word[1:] for word in words[:at]), words[at + (words[at : at + 1] == ["--"]) :]


def attempt(shell: Shell, prefix: str, act: Callable[[], None]) -> int:
    try:
        act()
    except FileError as error:
        shell.complain(f"{prefix}{error}\n")
        return 1
    return 0


def find_if_known(shell: Shell, path: str, *, follow: bool = True) -> File | None:
    """Return a file; None also for one that may be in the image: scripts test for files that they write."""
    try:
        return shell.files.find(path, shell.now, follow=follow)
    except UnknownProgramError:
        return None
