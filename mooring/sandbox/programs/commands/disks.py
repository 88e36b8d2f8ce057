"""`df`, as BusyBox prints it: the sizes of the file systems that a container sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from mooring.sandbox.programs.commands.arguments import split_options
from mooring.sandbox.programs.commands.kernel import mounted_volumes
from mooring.sandbox.programs.commands.listing import human
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import NOT_THERE, FileError
from mooring.sandbox.programs.volume import Volume

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command
    from mooring.sandbox.programs.shell import Shell

_UNITS: Final = {"": ("1K-blocks", 1 << 10), "k": ("1K-blocks", 1 << 10), "m": ("1M-blocks", 1 << 20)}
_DEVICES: Final = 64 << 20  # bytes of the tmpfs at /dev


class _FileSystem(NamedTuple):
    device: str
    size: int
    used: int
    path: str


def _df(shell: Shell, words: list[str]) -> int:
    options, paths = split_options(words)
    flags = options.replace("P", "")
    if flags not in (*_UNITS, "h"):
        raise UnknownProgramError("df")
    header, unit = _UNITS.get(flags, ("Size", 0))
    shell.print(f"Filesystem           {header:<15}Used Available Use% Mounted on\n")
    if not paths:
        for one in _all(shell):
            shell.print(_line(one, unit))
    status = 0
    for path in paths:
        try:
            if shell.files.find(path, shell.now) is None:
                raise FileError(NOT_THERE)
            volume, place = shell.files.volume_at(path, shell.now)
        except FileError as error:
            shell.complain(f"df: {path}: can't find mount point: {error}\n")
            status = 1
            continue
        devices = {mount: device for device, mount, _, _ in mounted_volumes(shell)}
        shell.print(_line(_measure(shell, devices.get(place, "overlay"), volume, place), unit))
    return status


def _all(shell: Shell) -> list[_FileSystem]:
    files, volumes = shell.files, {one.path: one.volume for one in shell.files.mounts}
    systems = [_measure(shell, "overlay", files.root, "/"), _FileSystem("tmpfs", _DEVICES, 0, "/dev")]
    for device, path, _, _ in mounted_volumes(shell):
        volume = volumes[path]
        if volume is None:
            raise UnknownProgramError("df")
        systems.append(_measure(shell, device, volume, path))
    return systems


def _measure(shell: Shell, device: str, volume: Volume, path: str) -> _FileSystem:
    """Return the size of a file system. A volume without a size of its own is on the disk of the node."""
    shell.work.spend(len(volume))
    size = shell.files.root.size if volume.size is None else volume.size
    if size is None:
        raise UnknownProgramError("df")
    return _FileSystem(device, size, volume.used_space(shell.now, by_programs=True), path)


def _line(one: _FileSystem, unit: int) -> str:
    free = max(one.size - one.used, 0)
    numbers = [one.size, one.used, free]
    shown = [f"{(-(-each // unit) if unit else human(each)):>9}" for each in numbers]
    percent = (one.used * 100 + (one.used + free) // 2) // max(one.used + free, 1)
    return f"{one.device:<20} {' '.join(shown)} {percent:3}% {one.path}\n"


COMMANDS: Final[dict[str, Command]] = {"df": _df}
