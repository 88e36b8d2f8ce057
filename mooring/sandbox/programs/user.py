"""The user of a container, and its rights."""

from __future__ import annotations

from typing import NamedTuple

from mooring.sandbox.programs.capabilities import capability_bits
from mooring.sandbox.programs.file import File

READ, WRITE, EXECUTE = 4, 2, 1


class Privileges(NamedTuple):
    """What the processes of a container may do in addition to what their user may."""

    capabilities: int = capability_bits()
    may_escalate: bool = True
    has_seccomp: bool = False


class User(NamedTuple):
    """Whose rights a container has."""

    uid: int = 0
    gid: int = 0
    groups: frozenset[int] = frozenset()
    privileges: Privileges = Privileges()

    @property
    def capabilities(self) -> int:
        """Those in effect: a user other than root has none."""
        return self.privileges.capabilities if self.uid == 0 else 0

    def may(self, file: File, right: int) -> bool:
        """Whether one of the rights of `rwx` is granted."""
        if self.uid == 0:
            return right != EXECUTE or bool(file.mode & 0o111)
        if file.uid == self.uid:
            return bool(file.mode >> 6 & right)
        if file.gid == self.gid or file.gid in self.groups:
            return bool(file.mode >> 3 & right)
        return bool(file.mode & right)
