"""The types of hostPath volumes: what a node must have at their paths before a pod starts."""

from __future__ import annotations

import stat
from collections.abc import Callable
from typing import Final

from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import File
from mooring.sandbox.programs.specs import PodRun
from mooring.sandbox.programs.volume import Volume

_CREATED: Final = {
    "DirectoryOrCreate": File(mode=stat.S_IFDIR | 0o755),
    "FileOrCreate": File(mode=stat.S_IFREG | 0o644),
}
_CHECKS: Final[dict[str, tuple[Callable[[int], bool], str]]] = {
    "DirectoryOrCreate": (stat.S_ISDIR, "directory"),
    "Directory": (stat.S_ISDIR, "directory"),
    "FileOrCreate": (stat.S_ISREG, "file"),
    "File": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}


def unsuitable_path(run: PodRun, host: Volume, now: float) -> str:
    """Return why a hostPath volume cannot be mounted, in kubelet's words, or "". Creates what is to be
    created. A path that is not known is taken to be what the pod expects."""
    for volume in run.spec.volumes:
        if volume.host_path is None or volume.host_path.type not in _CHECKS:
            continue
        kind, path = volume.host_path.type, volume.host_path.path
        resolved = host.resolve(path.strip("/"), now)
        try:
            file = None if resolved is None else host.find(resolved, now)
        except UnknownProgramError:
            continue
        if file is None and resolved is not None and kind in _CREATED:
            file = _CREATED[kind]
            host.write(resolved, file, now)
        matches, name = _CHECKS[kind]
        if file is None or not matches(file.mode):
            why = f"hostPath type check failed: {path} is not a {name}"
            return f'MountVolume.SetUp failed for volume "{volume.name}" : {why}'
    return ""
