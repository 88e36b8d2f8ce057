"""The files that a container sees: volumes, mounted on its own layer."""

from __future__ import annotations

import math
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Final, NamedTuple

from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import (
    DENIED,
    EXISTS,
    IS_FOLDER,
    LINK_LOOP,
    NO_FOLDER,
    NO_SPACE,
    NOT_PERMITTED,
    NOT_THERE,
    READ_ONLY,
    File,
    FileError,
)
from mooring.sandbox.programs.links import resolve
from mooring.sandbox.programs.space import Space
from mooring.sandbox.programs.user import READ, WRITE, User
from mooring.sandbox.programs.volume import LazyVolume, Volume
from mooring.sandbox.programs.work import Work

LONGEST_PATH: Final = 4096
TEMPORARY: Final = "tmp"  # a folder in any image and on any node, all of whose files are known
_ROOT: Final = User()
_ROOT_FOLDER: Final = File(mode=stat.S_IFDIR | 0o755)


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
