"""The files of a volume, with their history.

Programs run in no time and write at times to come, so a file is read as it is at a time: a probe sees what
the container has written by then, and a container what another one has.
"""

from __future__ import annotations

import math
import stat
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from sys import getsizeof
from typing import Final, NamedTuple

from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import LONGEST, File
from mooring.sandbox.programs.links import resolve
from mooring.sandbox.programs.space import Space
from mooring.sandbox.programs.work import Work

MOST_OF_NODE: Final = 16  # versions of a file that a node writes, such as a limit of a cgroup
MOST_FILES: Final = 2_000  # that programs create in a volume
MOST_HISTORY: Final = 8 * 1024 * 1024  # bytes of all versions of the files of a volume
_PER_FILE: Final = 3  # units of work to look at a file
_AT: Final = attrgetter("at")
_FOLDER: Final = File(mode=stat.S_IFDIR | 0o777)


class _Version(NamedTuple):
    at: float
    writer: object
    file: File | None

    @property
    def size(self) -> int:
        """The bytes of history that it counts for."""
        content = self.file.content if self.file is not None else None
        return 1000 + (getsizeof(content) if content else 0)


class Volume:
    """Files by their paths, relative to the volume, each with its history. What is not in a `complete` one
    does not exist, nor what is not in one of the `known` folders; other files may exist without being
    known. `size` in bytes is what fits, None if that is not known."""

    def __init__(
        self,
        *,
        complete: bool = True,
        known: Iterable[str] = (),
        folder: File = _FOLDER,
        read_only: bool = False,
        fs_type: int | str = 0xEF53,
        size: int | None = None,
        space: Space | None = None,
    ) -> None:
        self.complete = complete
        self._known = tuple(f"{folder}/" for folder in known)
        self.folder = folder
        self.read_only = read_only
        self.fs_type = fs_type
        self.size = size
        self._versions: dict[str, list[_Version]] = {}  # in the order of their times
        self._paths: list[str] = []  # sorted
        self._links: set[str] = set()  # those at which there is or was a symbolic link
        self._history = 0
        self.space = space
        """What programs write takes room there."""

    def __len__(self) -> int:
        return len(self._paths)

    def find(self, path: str, at: float, work: Work | None = None) -> File | None:
        """Return the file as it is at a time, None if there is none. Raises UnknownProgramError, and
        ForeverError if that is too much work."""
        if not path:
            return self.folder
        version = self._find_version(path, at)
        if version is not None:
            return version.file
        if self._has_any(path, at, work):
            return File(mode=stat.S_IFDIR | 0o755)
        if f"{path}/" in self._known:
            return File(mode=stat.S_IFDIR | stat.S_ISVTX | 0o777)
        if path not in self._versions and not self._has_all(path):
            raise UnknownProgramError(f"/{path}")
        return None

    def _has_any(self, path: str, at: float, work: Work | None) -> bool:
        """Whether there is a file below a path; of many that were removed each is looked at."""
        for child in self._below(path):
            if work is not None:
                work.spend(_PER_FILE)
            if self._exists(child, at):
                return True
        return False

    def _find_version(self, path: str, at: float) -> _Version | None:
        """Return the last version of a file by a time, of several at the same time the last one written."""
        versions = self._versions.get(path, ())
        index = bisect_right(versions, at, key=_AT)
        return versions[index - 1] if index else None

    @property
    def has_links(self) -> bool:
        return bool(self._links)

    def read_link(self, path: str, at: float) -> str | None:
        """Return where a symbolic link leads; None if a path is not one."""
        version = self._find_version(path, at) if path in self._links else None
        file = None if version is None else version.file
        return file.content if file is not None and file.is_link else None

    def resolve(self, path: str, at: float) -> str | None:
        """Return a path without symbolic links, in a volume that is the whole file system; None if they lead
        in a circle."""
        if not self._links:
            return path
        resolved = resolve(path, lambda link: self.read_link(link[1:], at))
        return None if resolved is None else resolved[1:]

    def used_space(self, at: float, *, by_programs: bool = False) -> int:
        """Return the bytes that files take at a time; perhaps only what programs have written."""
        versions = (self._find_version(path, at) for path in self._paths)
        return sum(
            one.file.disk_space
            for one in versions
            if one is not None and one.file is not None and not (by_programs and one.writer is None)
        )

    def changed_at(self, path: str, at: float) -> float | None:
        """Return when a file was written last, or one in a folder; None if that is not known."""
        versions = (self._find_version(each, at) for each in (path, *self._below(path)))
        return max((one.at for one in versions if one is not None), default=None)

    def _exists(self, path: str, at: float) -> bool:
        """Whether a program or a node has written a file, and it is there at a time."""
        version = self._find_version(path, at)
        return version is not None and version.file is not None

    def write(self, path: str, file: File | None, at: float, writer: object = None) -> None:
        """Write a file, or remove it. Raises UnknownProgramError."""
        version = _Version(at, writer, file)
        too_many = path not in self._versions and len(self) >= MOST_FILES
        if too_many or len((file and file.content) or "") > LONGEST:
            raise UnknownProgramError("too many or too large files")
        if self._history + version.size > MOST_HISTORY:
            raise UnknownProgramError("too much is written")
        if self.space is not None:
            self.space.take(version.size)
        self._add(path, version)

    def _add(self, path: str, version: _Version) -> None:
        versions = self._versions.get(path)
        if versions is None:
            versions = self._versions[path] = []
            insort(self._paths, path)
        insort(versions, version, key=_AT)
        self._history += version.size
        if version.file is not None and version.file.is_link:
            self._links.add(path)

    def remove(self, path: str, at: float, writer: object) -> None:
        """Remove a file, or a folder with all that is in it."""
        for child in [child for child in self._below(path) if self._exists(child, at)]:
            self.write(child, None, at, writer)
        self.write(path, None, at, writer)

    def replace(self, files: dict[str, File], at: float) -> bool:
        """Have exactly these files from a time on; return whether something has changed. Where the history
        is too long, what was there before is forgotten."""
        before = {path: self.find(path, at) for path in self._versions}
        changed = {path: files.get(path) for path in {*before, *files} if before.get(path) != files.get(path)}
        for path, file in changed.items():
            self._add(path, _Version(at, None, file))
        for path in changed if self._history > MOST_HISTORY else ():
            versions = self._versions[path]
            self._history -= sum(one.size for one in versions[:-1])
            del versions[:-1]
        return bool(changed)

    def forget(self, writer: object, after: float = -math.inf) -> None:
        """Undo what a run writes after a time."""
        for path, versions in list(self._versions.items()):
            kept = [one for one in versions if one.writer is not writer or one.at <= after]
            if len(kept) == len(versions):
                continue
            self._free(sum(one.size for one in versions) - sum(one.size for one in kept))
            if kept:
                self._versions[path] = kept
            else:
                del self._versions[path]
                del self._paths[bisect_left(self._paths, path)]

    def forget_oldest(self, path: str) -> None:
        """Keep the last versions of a file only, of one that the node itself writes without end."""
        versions = self._versions.get(path, [])
        self._free(sum(one.size for one in versions[:-MOST_OF_NODE]))
        del versions[:-MOST_OF_NODE]

    def _free(self, size: int) -> None:
        self._history -= size
        if self.space is not None:
            self.space.give_back(size)

    def close(self) -> None:
        """Give the room of all files back: they are no longer there for anyone."""
        if self.space is not None:
            self.space.give_back(self._history)
            self.space = None

    def written_by(self, writer: object) -> bool:
        return any(one.writer is writer for versions in self._versions.values() for one in versions)

    def list(self, path: str, at: float) -> list[str]:
        """Return the names in a folder. Raises UnknownProgramError."""
        if not self._has_all(path):
            raise UnknownProgramError(f"/{path}")
        prefix = f"{path}/" if path else ""
        below = [child for child in self._below(path) if self._exists(child, at)]
        return sorted({child.removeprefix(prefix).partition("/")[0] for child in below})

    def changes(self, after: float) -> Iterable[float]:
        """Return the times of changes after a time."""
        return {one.at for versions in self._versions.values() for one in versions if one.at > after}

    def _has_all(self, path: str) -> bool:
        """Whether all files at and below a path are known."""
        return self.complete or f"{path}/".startswith(self._known)

    def _below(self, path: str) -> Iterator[str]:
        prefix = f"{path}/" if path else ""
        for index in range(bisect_left(self._paths, prefix), len(self._paths)):
            if not self._paths[index].startswith(prefix):
                return
            yield self._paths[index]


class LazyVolume(Volume):
    """Files that are made when a program first looks for one: most programs look for none."""

    def __init__(
        self,
        read: Callable[[], dict[str, File]],
        at: float = -math.inf,
        *,
        known: Iterable[str] = (),
        folder: File = _FOLDER,
        read_only: bool = False,
        fs_type: int | str = 0xEF53,
        size: int | None = None,
        space: Space | None = None,
    ) -> None:
        """`at` is when the files were written."""
        super().__init__(
            complete=False,
            known=known,
            folder=folder,
            read_only=read_only,
            fs_type=fs_type,
            size=size,
            space=space,
        )
        self._read = read
        self._read_at = at
        self._is_filled = False

    def find(self, path: str, at: float, work: Work | None = None) -> File | None:
        self._fill()
        return super().find(path, at, work)

    def write(self, path: str, file: File | None, at: float, writer: object = None) -> None:
        self._fill()
        super().write(path, file, at, writer)

    def used_space(self, at: float, *, by_programs: bool = False) -> int:
        if not by_programs:
            self._fill()
        return super().used_space(at, by_programs=by_programs)

    def _fill(self) -> None:
        if not self._is_filled:
            self._is_filled = True
            for path, file in self._read().items():
                super().write(path, file, self._read_at)

    def refresh(self, now: float) -> bool:
        """Make the files again; return whether a program may have seen another content before."""
        if not self._is_filled:
            return False
        files = self._read()
        changed = self.replace(files, now)
        for path in files:
            self.forget_oldest(path)
        return changed

    def detach(self) -> None:
        """Refer no longer to what the files are made from."""
        self._read = dict
