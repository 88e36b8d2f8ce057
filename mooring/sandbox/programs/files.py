"""The files that the containers of a pod see: volumes with their history, mounted on a container's own layer.

Programs run in no time and write at times to come, so a file is read as it is at a time: a probe sees what
the container has written by then, and a container what another one has.
"""

from __future__ import annotations

import math
import posixpath
import stat
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from operator import attrgetter
from sys import getsizeof
from typing import Final, NamedTuple

from mooring.sandbox.programs.capabilities import capability_bits
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.links import resolve
from mooring.sandbox.programs.space import Space
from mooring.sandbox.programs.work import Work

LONGEST: Final = 1024 * 1024  # characters of a file
LONGEST_PATH: Final = 4096
MOST_OF_NODE: Final = 16  # versions of a file that a node writes, such as a limit of a cgroup
MOST_FILES: Final = 2_000  # that programs create in a volume
MOST_HISTORY: Final = 8 * 1024 * 1024  # bytes of all versions of the files of a volume
TEMPORARY: Final = "tmp"  # a folder in any image and on any node, all of whose files are known

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
            return right != EXECUTE or bool(file.mode & 0o111)
        if file.uid == self.uid:
            return bool(file.mode >> 6 & right)
        if file.gid == self.gid or file.gid in self.groups:
            return bool(file.mode >> 3 & right)
        return bool(file.mode & right)


READ, WRITE, EXECUTE = 4, 2, 1
_ROOT = User()
_FOLDER = File(mode=stat.S_IFDIR | 0o777)
_ROOT_FOLDER = File(mode=stat.S_IFDIR | 0o755)


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


class Mount(NamedTuple):
    """A volume, or one of its paths, at a path of a container. What is in None is not known."""

    path: str
    volume: Volume | None
    sub_path: str = ""
    read_only: bool = False


class _Place(NamedTuple):
    """Where a path leads: in a volume, and from the root of the container."""

    volume: Volume
    inner: str
    read_only: bool
    path: str


class Files:
    """The file system of one run of a container. All that is in the `known` folders is known, and
    `disk_size` is that of its node, in bytes."""

    def __init__(
        self,
        mounts: Iterable[Mount] = (),
        user: User = _ROOT,
        *,
        read_only: bool = False,
        folder: str = "/",
        known: Iterable[str] = (),
        disk_size: int | None = None,
        space: Space | None = None,
        own: Callable[[], dict[str, File]] = dict,
        started: float = -math.inf,
    ) -> None:
        """`own` returns the files of the container's own layer, which are there once it has started."""
        self.root: Volume = LazyVolume(
            own,
            started,
            known=(TEMPORARY, *known),
            folder=_ROOT_FOLDER,
            read_only=read_only,
            size=disk_size,
            space=space,
        )
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

    def find(self, path: str, at: float, *, follow: bool = True) -> File | None:
        """Return a file or a folder, None if there is none; without `follow`, also a symbolic link. Raises
        UnknownProgramError."""
        try:
            place = self._locate(path, at, follow=follow)
        except FileError:
            return None
        return place.volume.find(place.inner, at, self.work)

    def resolve(self, path: str, at: float) -> str:
        """Return the path of a file without symbolic links. Raises FileError and UnknownProgramError."""
        return self._locate(path, at).path

    def read(self, path: str, at: float) -> str:
        """Return the content of a file. Raises FileError and UnknownProgramError."""
        place = self._locate(path, at)
        file = place.volume.find(place.inner, at, self.work)
        if file is None:
            raise FileError(NOT_THERE)
        if file.is_folder:
            raise FileError(IS_FOLDER)
        if not self.user.may(file, READ):
            raise FileError(DENIED)
        if file.content is None:
            raise UnknownProgramError(path)
        return file.content

    def write(
        self, path: str, content: str | None, at: float, mode: int = 0o644, size: int | None = None
    ) -> None:
        """Create or overwrite a file; `mode` is for a new one, `size` for a content that is too large to
        keep. Raises FileError and UnknownProgramError."""
        volume, inner, read_only, _ = self._locate(path, at)
        if read_only:
            raise FileError(READ_ONLY)
        current = self._find_known(volume, inner, at)
        if current is not None and current.is_folder:
            raise FileError(IS_FOLDER)
        self._check_folder(volume, inner, at)
        if current is not None and not self.user.may(current, WRITE):
            raise FileError(DENIED)
        before = current or File("", stat.S_IFREG | mode, self.user.uid, self._group(volume))
        file = before._replace(content=content, size=size)
        self._check_space(volume, before, file, at)
        volume.write(inner, file, at, self.writer)

    def copy(self, source: str, target: str, at: float, *, moves: bool = False) -> None:
        """Copy or rename a file, also one whose content is not known. Raises FileError, and
        UnknownProgramError for a folder."""
        file = self.find(source, at, follow=not moves)
        if file is None:
            raise FileError(NOT_THERE)
        if file.is_folder:
            raise UnknownProgramError(source)
        if not moves and not self.user.may(file, READ):
            raise FileError(DENIED)
        if moves and self._locate(source, at, follow=False).read_only:
            raise FileError(READ_ONLY)
        replaced = self._locate(target, at, follow=False)
        if moves and replaced.volume.read_link(replaced.inner, at) is not None:
            self.remove(target, at)
        self.write(target, "", at, file.mode & 0o777)
        volume, inner, _, _ = self._locate(target, at)
        copied = volume.find(inner, at)
        assert copied is not None
        kept = file if moves else copied._replace(content=file.content, size=file.size)
        volume.write(inner, kept, at, self.writer)
        if moves and (self._locate(source, at, follow=False)[:2] != (volume, inner)):
            self.remove(source, at)

    def make_folder(self, path: str, at: float) -> None:
        """Raises FileError and UnknownProgramError."""
        self.make(path, at, stat.S_IFDIR | 0o755)

    def make_link(self, path: str, target: str, at: float) -> None:
        """Create a symbolic link. Raises FileError and UnknownProgramError."""
        self.make(path, at, stat.S_IFLNK | 0o777, target)

    def make(self, path: str, at: float, mode: int, content: str = "") -> None:
        """Create a folder, a special file or a symbolic link, by its mode. Raises FileError and
        UnknownProgramError."""
        volume, inner, read_only, _ = self._locate(path, at, follow=False)
        if read_only:
            raise FileError(READ_ONLY)
        if self._find_known(volume, inner, at) is not None:
            raise FileError(EXISTS)
        self._check_folder(volume, inner, at)
        file = File(content, mode, self.user.uid, self._group(volume))
        self._check_space(volume, None, file, at)
        volume.write(inner, file, at, self.writer)

    def change_mode(self, path: str, mode: int, at: float) -> None:
        """Change the permissions of a file. Raises FileError and UnknownProgramError."""
        volume, inner, read_only, _ = self._locate(path, at)
        file = volume.find(inner, at, self.work)
        if file is None:
            raise FileError(NOT_THERE)
        if self.user.uid not in (0, file.uid):
            raise FileError(NOT_PERMITTED)
        if read_only:
            raise FileError(READ_ONLY)
        if not inner:  # the mode of a whole volume has no history
            raise UnknownProgramError(path)
        volume.write(inner, file._replace(mode=stat.S_IFMT(file.mode) | mode), at, self.writer)

    def remove(self, path: str, at: float) -> None:
        """Remove a file or a symbolic link, or a folder with all that is in it. Raises FileError and
        UnknownProgramError."""
        volume, inner, read_only, _ = self._locate(path, at, follow=False)
        if read_only:
            raise FileError(READ_ONLY)
        file = volume.find(inner, at, self.work)
        if file is None:
            raise FileError(NOT_THERE)
        self.work.spend(len(volume) if file.is_folder else 0)
        volume.remove(inner, at, self.writer)

    def list(self, path: str, at: float) -> list[str]:
        """Return the names in a folder. Raises FileError and UnknownProgramError."""
        volume, inner, _, path = self._locate(path, at)
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

    def changed_at(self, path: str, at: float, *, follow: bool = True) -> float | None:
        """Return when a file or a folder was changed last; None if that is not known."""
        volume, inner, _, _ = self._locate(path, at, follow=follow)
        self.work.spend(len(volume))
        return volume.changed_at(inner, at)

    def volume_at(self, path: str, at: float) -> tuple[Volume, str]:
        """Return the volume that a path is on, and where that is mounted. Raises FileError and
        UnknownProgramError."""
        place = self._locate(path, at)
        mount = self._find_mount(place.path)
        return place.volume, "/" if mount is None else mount.path

    def fs_type(self, path: str, at: float) -> int | str:
        """Return the type of the file system that a path is on."""
        return self._locate(path, at).volume.fs_type

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

    def _locate(self, path: str, at: float, *, follow: bool = True) -> _Place:
        """Return where a path leads; without `follow`, to a symbolic link. Raises FileError and
        UnknownProgramError."""
        self.work.spend(4 + len(self.mounts) // 4 + len(path) // 32)
        if len(self.folder) + len(path) > LONGEST_PATH:
            raise UnknownProgramError("too long a path")
        path = posixpath.join(self.folder, path)
        if self._may_have_links():
            resolved = resolve(path, partial(self._read_link, at), follow=follow)
            if resolved is None:
                raise FileError(LINK_LOOP)
            path = resolved
        path = f"/{posixpath.normpath(path).lstrip('/')}"
        mount = self._find_mount(path)
        if mount is None:
            return _Place(self.root, path.lstrip("/"), self.root.read_only, path)
        if mount.volume is None:
            raise UnknownProgramError(path)
        self.last_read = max(self.last_read, at)
        return _Place(mount.volume, self._inner(mount, path), mount.read_only or mount.volume.read_only, path)

    def _may_have_links(self) -> bool:
        volumes = (mount.volume for mount in self.mounts)
        return self.root.has_links or any(one is not None and one.has_links for one in volumes)

    def _find_mount(self, path: str) -> Mount | None:
        return next((one for one in self.mounts if path == one.path or path.startswith(f"{one.path}/")), None)

    def _inner(self, mount: Mount, path: str) -> str:
        """Return a path of a container as one of the volume that is mounted there."""
        self.work.copy(len(mount.sub_path))
        return posixpath.join(mount.sub_path, path[len(mount.path) :].lstrip("/")).rstrip("/")

    def _read_link(self, at: float, path: str) -> str | None:
        self.work.copy(len(path))
        mount = self._find_mount(path)
        if mount is None:
            return self.root.read_link(path[1:], at)
        if mount.volume is None or not mount.volume.has_links:
            return None
        self.last_read = max(self.last_read, at)
        return mount.volume.read_link(self._inner(mount, path), at)

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

    def _check_space(self, volume: Volume, before: File | None, after: File, at: float) -> None:
        if volume.size is None:
            return
        self.work.spend(len(volume))
        taken = after.disk_space - (0 if before is None else before.disk_space)
        if taken > 0 and volume.used_space(at) + taken > volume.size:
            raise FileError(NO_SPACE)

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
