"""The files that the containers of a pod see: volumes with their history, mounted on a container's own layer.

Programs run in no time and write at times to come, so a file is read as it is at a time: a probe sees what
the container has written by then, and a container what another one has.
"""

from __future__ import annotations

import math
import posixpath
import stat
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from operator import attrgetter
from sys import getsizeof
from typing import Final, NamedTuple

from mooring.sandbox.programs.capabilities import capability_bits
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.space import Space
from mooring.sandbox.programs.work import Work

LONGEST: Final = 1024 * 1024  # characters of a file
LONGEST_PATH: Final = 4096
MOST_FILES: Final = 2_000  # that programs create in a volume
MOST_HISTORY: Final = 8 * 1024 * 1024  # bytes of all versions of the files of a volume
TEMPORARY: Final = "tmp"  # a folder in any image and on any node, all of whose files are known

NOT_THERE: Final = "No such file or directory"
DENIED: Final = "Permission denied"
READ_ONLY: Final = "Read-only file system"
IS_FOLDER: Final = "Is a directory"
NO_FOLDER: Final = "Not a directory"


class FileError(Exception):
    """A file cannot be read or written, in the words of the C library."""


class File(NamedTuple):
    """A file or, by its mode, a folder. `content` is None where only a real container has it."""

    content: str | None = ""
    mode: int = stat.S_IFREG | 0o644
    uid: int = 0
    gid: int = 0

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)


class _Version(NamedTuple):
    at: float
    writer: object
    file: File | None

    @property
    def size(self) -> int:
        """The bytes of history that it counts for."""
        content = self.file.content if self.file is not None else None
        return 1000 + (getsizeof(content) if content else 0)


_PER_FILE: Final = 3  # units of work to look at a file
_AT: Final = attrgetter("at")


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
            return True
        if file.uid == self.uid:
            return bool(file.mode >> 6 & right)
        if file.gid == self.gid or file.gid in self.groups:
            return bool(file.mode >> 3 & right)
        return bool(file.mode & right)


READ, WRITE = 4, 2
_ROOT = User()
_FOLDER = File(mode=stat.S_IFDIR | 0o777)


class Volume:
    """Files by their paths, relative to the volume, each with its history. What is not in a `complete` one
    does not exist, nor what is not in one of the `known` folders; other files may exist without being
    known."""

    def __init__(
        self,
        *,
        complete: bool = True,
        known: Iterable[str] = (),
        folder: File = _FOLDER,
        read_only: bool = False,
        fs_type: int | str = 0xEF53,
        space: Space | None = None,
    ) -> None:
        self.complete = complete
        self._known = tuple(f"{folder}/" for folder in known)
        self.folder = folder
        self.read_only = read_only
        self.fs_type = fs_type
        self._versions: dict[str, list[_Version]] = {}  # in the order of their times
        self._paths: list[str] = []  # sorted
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
            freed = sum(one.size for one in versions) - sum(one.size for one in kept)
            self._history -= freed
            if self.space is not None:
                self.space.give_back(freed)
            if kept:
                self._versions[path] = kept
            else:
                del self._versions[path]
                del self._paths[bisect_left(self._paths, path)]

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


class Mount(NamedTuple):
    """A volume, or one of its paths, at a path of a container. What is in None is not known."""

    path: str
    volume: Volume | None
    sub_path: str = ""
    read_only: bool = False


class Files:
    """The file system of one run of a container."""

    def __init__(
        self,
        mounts: Iterable[Mount] = (),
        user: User = _ROOT,
        *,
        read_only: bool = False,
        folder: str = "/",
        space: Space | None = None,
    ) -> None:
        root = File(mode=stat.S_IFDIR | 0o755)
        self.root = Volume(complete=False, known=(TEMPORARY,), folder=root, read_only=read_only, space=space)
        self.writer = object()
        """Stands for this run in the history of volumes, and keeps nothing of it."""
        self.user = user
        self.folder = folder or "/"
        self.mounts = sorted(mounts, key=lambda mount: len(mount.path), reverse=True)
        self.work = Work()
        self.last_read = 0.0
        """The last time at which a mounted volume is read."""

    @property
    def volumes(self) -> list[Volume]:
        mounted = (mount.volume for mount in self.mounts if mount.volume is not None)
        return [self.root, *dict.fromkeys(mounted)]

    def find(self, path: str, at: float) -> File | None:
        """Return a file or a folder, None if there is none. Raises UnknownProgramError."""
        volume, inner, _ = self._locate(path, at)
        return volume.find(inner, at, self.work)

    def read(self, path: str, at: float) -> str:
        """Return the content of a file. Raises FileError and UnknownProgramError."""
        file = self.find(path, at)
        if file is None:
            raise FileError(NOT_THERE)
        if file.is_folder:
            raise FileError(IS_FOLDER)
        if not self.user.may(file, READ):
            raise FileError(DENIED)
        if file.content is None:
            raise UnknownProgramError(path)
        return file.content

    def write(self, path: str, content: str, at: float, mode: int = 0o644) -> None:
        """Create or overwrite a file; `mode` is for a new one. Raises FileError and UnknownProgramError."""
        volume, inner, read_only = self._locate(path, at)
        if read_only:
            raise FileError(READ_ONLY)
        current = self._find_known(volume, inner, at)
        if current is not None and current.is_folder:
            raise FileError(IS_FOLDER)
        self._check_folder(volume, inner, at)
        if current is not None and not self.user.may(current, WRITE):
            raise FileError(DENIED)
        file = current or File("", stat.S_IFREG | mode, self.user.uid, self._group(volume))
        volume.write(inner, file._replace(content=content), at, self.writer)

    def copy(self, source: str, target: str, at: float, *, moves: bool = False) -> None:
        """Copy or rename a file, also one whose content is not known. Raises FileError, and
        UnknownProgramError for a folder."""
        file = self.find(source, at)
        if file is None:
            raise FileError(NOT_THERE)
        if file.is_folder:
            raise UnknownProgramError(source)
        if not moves and not self.user.may(file, READ):
            raise FileError(DENIED)
        if moves and self._locate(source, at)[2]:
            raise FileError(READ_ONLY)
        self.write(target, "", at, file.mode & 0o777)
        volume, inner, _ = self._locate(target, at)
        copied = volume.find(inner, at)
        assert copied is not None
        volume.write(inner, file if moves else copied._replace(content=file.content), at, self.writer)
        if moves and (self._locate(source, at)[:2] != (volume, inner)):
            self.remove(source, at)

    def make_folder(self, path: str, at: float) -> None:
        """Raises FileError and UnknownProgramError."""
        self.make(path, at, stat.S_IFDIR | 0o755)

    def make(self, path: str, at: float, mode: int) -> None:
        """Create a folder or a special file, by its mode. Raises FileError and UnknownProgramError."""
        volume, inner, read_only = self._locate(path, at)
        if read_only:
            raise FileError(READ_ONLY)
        self._check_folder(volume, inner, at)
        volume.write(inner, File("", mode, self.user.uid, self._group(volume)), at, self.writer)

    def remove(self, path: str, at: float) -> None:
        """Remove a file, or a folder with all that is in it. Raises FileError and UnknownProgramError."""
        volume, inner, read_only = self._locate(path, at)
        if read_only:
            raise FileError(READ_ONLY)
        file = volume.find(inner, at, self.work)
        if file is None:
            raise FileError(NOT_THERE)
        self.work.spend(len(volume) if file.is_folder else 0)
        volume.remove(inner, at, self.writer)

    def list(self, path: str, at: float) -> list[str]:
        """Return the names in a folder. Raises FileError and UnknownProgramError."""
        volume, inner, _ = self._locate(path, at)
        file = volume.find(inner, at, self.work)
        if file is None:
            raise FileError(NOT_THERE)
        if not file.is_folder:
            raise FileError(NO_FOLDER)
        self.work.spend(2 * len(volume))
        mounts = {mount.path for mount in self.mounts}
        names = volume.list(inner, at)
        return sorted(
            {*names, *(posixpath.basename(one) for one in mounts if posixpath.dirname(one) == path)}
        )

    def changed_at(self, path: str, at: float) -> float | None:
        """Return when a file or a folder was changed last; None if that is not known."""
        volume, inner, _ = self._locate(path, at)
        self.work.spend(len(volume))
        return volume.changed_at(inner, at)

    def fs_type(self, path: str, at: float) -> int | str:
        """Return the type of the file system that a path is on."""
        return self._locate(path, at)[0].fs_type

    @contextmanager
    def entered(self, mount: Mount) -> Iterator[None]:
        """See a volume that is mounted as the whole file system."""
        assert mount.volume is not None
        before = self.root, self.mounts, self.folder
        self.root, self.mounts, self.folder = mount.volume, [], "/"
        try:
            yield
        finally:
            self.root, self.mounts, self.folder = before

    def fork(self) -> Files:
        """Return the same files for another program, whose writes can be undone by themselves."""
        forked = copy(self)
        forked.writer = object()
        return forked

    def forget(self) -> None:
        """Undo all that this run has written."""
        self.last_read = 0.0
        for volume in self.volumes:
            volume.forget(self.writer)

    def stop(self, at: float) -> None:
        """Undo what this run would have written after its end."""
        for volume in self.volumes:
            volume.forget(self.writer, at)

    def _locate(self, path: str, at: float) -> tuple[Volume, str, bool]:
        self.work.spend(4 + len(self.mounts) // 4 + len(path) // 32)
        if len(self.folder) + len(path) > LONGEST_PATH:
            raise UnknownProgramError("too long a path")
        path = posixpath.normpath(posixpath.join(self.folder, path))
        path = f"/{path.lstrip('/')}"
        for mount in self.mounts:
            if path == mount.path or path.startswith(f"{mount.path}/"):
                if mount.volume is None:
                    raise UnknownProgramError(path)
                self.work.copy(len(mount.sub_path))
                self.last_read = max(self.last_read, at)
                inner = posixpath.join(mount.sub_path, path[len(mount.path) :].lstrip("/")).rstrip("/")
                return mount.volume, inner, mount.read_only or mount.volume.read_only
        return self.root, path.lstrip("/"), self.root.read_only

    def _check_folder(self, volume: Volume, inner: str, at: float) -> None:
        if not volume.complete:
            return  # the folders of an image are not known
        folder = volume.find(posixpath.dirname(inner), at, self.work)
        if folder is None:
            raise FileError(NOT_THERE)
        if not folder.is_folder:
            raise FileError(NO_FOLDER)
        if not self.user.may(folder, WRITE):
            raise FileError(DENIED)

    def _find_known(self, volume: Volume, inner: str, at: float) -> File | None:
        """Return a file; None also for one that may be in the image."""
        try:
            return volume.find(inner, at, self.work)
        except UnknownProgramError:
            if volume.complete:
                raise
            return None

    def _group(self, volume: Volume) -> int:
        return volume.folder.gid if volume.folder.mode & stat.S_ISGID else self.user.gid
