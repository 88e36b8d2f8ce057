"""Commands that show the user of a container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.images import Image
from mooring.sandbox.programs.user import User

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command
    from mooring.sandbox.programs.shell import Shell


def _id(shell: Shell, words: list[str]) -> int:
    user, image = shell.files.user, shell.image
    flags, numbers = "".join(sorted("".join(words).replace("-", ""))), [user.gid, *_other_groups(user)]
    if flags in ("u", "g"):
        shell.print(f"{user.uid if flags == 'u' else user.gid}\n")
    elif flags == "G":
        shell.print(" ".join(map(str, numbers)) + "\n")
    elif flags == "nu":
        return _whoami(shell, [])
    elif not flags:
        groups = ",".join(_with_name(gid, group_name(image, gid)) for gid in numbers)
        name = _with_name(user.uid, user_name(image, user.uid))
        shell.print(f"uid={name} gid={_with_name(user.gid, group_name(image, user.gid))} groups={groups}\n")
    else:
        raise UnknownProgramError("id")
    return 0


def _whoami(shell: Shell, words: list[str]) -> int:
    uid = shell.files.user.uid
    name = user_name(shell.image, uid)
    if name:
        shell.print(f"{name}\n")
        return 0
    shell.complain(f"whoami: unknown uid {uid}\n")
    return 1


def _other_groups(user: User) -> list[int]:
    return sorted(user.groups - {user.gid})


def user_name(image: Image, uid: int) -> str:
    """Return the name of a user, "" if it has none. Raises UnknownProgramError."""
    try:
        account = image.find_account(uid)
    except LookupError:
        raise UnknownProgramError("id") from None
    return "" if account is None else account.name


def group_name(image: Image, gid: int) -> str:
    """Return the name of a group, "" if it has none. Raises UnknownProgramError."""
    if gid not in image.groups and gid < image.unknown:
        raise UnknownProgramError("id")
    return image.groups.get(gid, "")


def _with_name(number: int, name: str) -> str:
    return f"{number}({name})" if name else str(number)


def _show_effective_user(shell: Shell, words: list[str]) -> int:
    """Print the user of a program that belongs to root and is run as its owner."""
    user = shell.files.user
    shell.print(f"Effective uid: {0 if user.privileges.may_escalate else user.uid}\n")
    return 0


COMMANDS: Final[dict[str, Command]] = {"id": _id, "whoami": _whoami, "nnp": _show_effective_user}
