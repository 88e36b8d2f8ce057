"""A file of a container, and the messages of the C library where it cannot be read or written."""

from __future__ import annotations

import stat
from typing import Final, NamedTuple

LONGEST: Final = 1024 * 1024  # characters of a file

NOT_THERE: Final = "No such file or directory"
DENIED: Final = "Permission denied"
READ_ONLY: Final = "Read-only file system"
IS_FOLDER: Final = "Is a directory"
NO_FOLDER: Final = "Not a directory"
EXISTS: Final = "File exists"
NOT_PERMITTED: Final = "Operation not permitted"
NO_SPACE: Final = "No space left on device"
LINK_LOOP: Final = "Too many levels of symbolic links"
_BLOCK: Final = 4096


class FileError(Exception):
    """A file cannot be read or written, in the words of the C library."""


class File(NamedTuple):
    """A file or, by its mode, a folder or a symbolic link, whose content is where it leads. `content` is None
    where only a real container has it, or where it is too large to keep: then `size` is known, in bytes."""

    content: str | None = ""
    mode: int = stat.S_IFREG | 0o644
    uid: int = 0
    gid: int = 0
    size: int | None = None

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    @property
    def length(self) -> int | None:
        """The size in bytes; None where it is not known."""
        if self.is_folder:
            return _BLOCK
        return self.size if self.content is None else len(self.content.encode(errors="surrogateescape"))

    @property
    def disk_space(self) -> int:
        """The bytes that it takes on a disk, as far as they are known; short links take none."""
        return 0 if self.is_link else -(-(self.length or 0) // _BLOCK) * _BLOCK
