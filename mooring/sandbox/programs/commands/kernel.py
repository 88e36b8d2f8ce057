"""Commands that ask the kernel: its parameters, what is mounted, network devices."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs.capabilities import ALL, has_capability
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import READ_ONLY, FileError
from mooring.sandbox.programs.kernel import KERNEL_FOLDERS

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command
    from mooring.sandbox.programs.shell import Shell

_MOUNTS: Final = (
    ("overlay", "/", "overlay", "rw,relatime"),
    ("proc", "/proc", "proc", "rw,nosuid,nodev,noexec,relatime"),
    ("tmpfs", "/dev", "tmpfs", "rw,nosuid,size=65536k,mode=755"),
    ("sysfs", "/sys", "sysfs", "ro,nosuid,nodev,noexec,relatime"),
    ("cgroup", "/sys/fs/cgroup", "cgroup2", "ro,nosuid,nodev,noexec,relatime"),
)
_DISK: Final = "/dev/vda1"
_NODE_MOUNTS: Final = "/run/mounts"
"""Where a node keeps the paths at which containers have mounted something, one a line."""


def _sysctl(shell: Shell, words: list[str]) -> int:
    """Print kernel parameters that the pod sets; others are not known."""
    if words[:1] == ["-w"] and len(words) == 2:
        return _set_parameter(shell, words[1].partition("=")[0])
    if not words or any(not re.fullmatch(r"[\w./-]+", word) or word.startswith("-") for word in words):
        raise UnknownProgramError("sysctl")
    for word in words:
        path = word.replace(".", "/")
        value = shell.files.read(f"/proc/sys/{path}", shell.now).rstrip("\n")
        shell.print(f"{path.replace('/', '.')} = {value}\n")
    return 0


def _set_parameter(shell: Shell, name: str) -> int:
    """Fail as in a container without privileges, for which parameters are read-only."""
    if shell.files.user.capabilities == ALL:
        raise UnknownProgramError("sysctl")
    shell.complain(f"sysctl: error setting key '{name}': {READ_ONLY}\n")
    return 1


def _mount(shell: Shell, words: list[str]) -> int:
    """Print what is mounted, perhaps of one type only; or mount an empty tmpfs or a folder onto itself."""
    if len(words) > 2:
        return _mount_on_node(shell, words)
    if words and (len(words) != 2 or words[0] != "-t"):
        raise UnknownProgramError("mount")
    for source, path, type, flags in (*_MOUNTS, *mounted_volumes(shell)):
        if not words or words[1] == type:
            shell.print(f"{source} on {path} type {type} ({flags})\n")
    return 0


def _mount_on_node(shell: Shell, words: list[str]) -> int:
    path = posixpath.normpath(words[-1])
    is_bind = words[:-1] == ["--bind", words[-1]]
    is_tmpfs = words[:2] == ["-t", "tmpfs"] and (len(words) == 4 or (len(words) == 6 and words[2] == "-o"))
    if shell.files.mounts or not (is_bind or is_tmpfs):  # only on a node that nsenter has entered
        raise UnknownProgramError("mount")
    folder = shell.files.find(path, shell.now)
    if folder is None or not folder.is_folder:
        shell.complain(f"mount: mounting {words[-2]} on {path} failed: No such file or directory\n")
        return 255
    if is_tmpfs and shell.files.list(path, shell.now):
        raise UnknownProgramError("mount")
    shell.files.write(_NODE_MOUNTS, f"{_read_node_mounts(shell)}{path}\n", shell.now)
    return 0


def _umount(shell: Shell, words: list[str]) -> int:
    """Unmount what was mounted on a node."""
    if shell.files.mounts or len(words) != 1:
        raise UnknownProgramError("umount")
    path, mounted = posixpath.normpath(words[0]), _read_node_mounts(shell).splitlines()
    if path not in mounted:
        shell.complain(f"umount: can't unmount {words[0]}: Invalid argument\n")
        return 1
    mounted.remove(path)
    shell.files.write(_NODE_MOUNTS, "".join(f"{one}\n" for one in mounted), shell.now)
    return 0


def _read_node_mounts(shell: Shell) -> str:
    try:
        return shell.files.read(_NODE_MOUNTS, shell.now)
    except (FileError, UnknownProgramError):
        return ""


def mounted_volumes(shell: Shell) -> Iterator[tuple[str, str, str, str]]:
    """Yield the device, path, type and flags of each volume."""
    for mount in shell.files.mounts:
        if mount.path in KERNEL_FOLDERS:
            continue
        is_temporary = mount.volume is None or mount.volume.fs_type == "tmpfs"
        flags = "ro,relatime" if mount.read_only else "rw,relatime"
        yield ("tmpfs", mount.path, "tmpfs", flags) if is_temporary else (_DISK, mount.path, "ext4", flags)


def _ip(shell: Shell, words: list[str]) -> int:
    """Add or remove a dummy device, which takes a privilege; others are not known."""
    is_removal = words[:1] == ["link"] and words[1:2] in (["del"], ["delete"]) and len(words) == 3
    if not is_removal and (words[:2] != ["link", "add"] or words[3:] != ["type", "dummy"]):
        raise UnknownProgramError("ip")
    if has_capability(shell.files.user.capabilities, "NET_ADMIN"):
        return 0
    shell.complain("ip: RTNETLINK answers: Operation not permitted\n")
    return 2


def _nsenter(shell: Shell, words: list[str]) -> int:
    """Run a command in the file system of the node, where a container has that in a volume."""
    match = re.fullmatch(r"--mount=(/.*)/proc/1/ns/mnt", words[0]) if words else None
    mounts = (one for one in shell.files.mounts if one.volume is not None and not one.sub_path)
    mount = next((one for one in mounts if match and one.path == match.group(1)), None)
    if mount is None or words[1:2] != ["--"]:
        raise UnknownProgramError("nsenter")
    if not has_capability(shell.files.user.capabilities, "SYS_ADMIN"):
        shell.complain("nsenter: setns(): can't reassociate to namespace 'mnt': Operation not permitted\n")
        return 1
    with shell.files.entered(mount):
        return shell.command(words[2:])


COMMANDS: Final[dict[str, Command]] = {
    "sysctl": _sysctl,
    "mount": _mount,
    "umount": _umount,
    "ip": _ip,
    "nsenter": _nsenter,
}
