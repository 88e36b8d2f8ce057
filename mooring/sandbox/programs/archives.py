"""tar, as `kubectl cp` runs it: one archive to the standard output, or from the standard input."""

from __future__ import annotations

import io
import posixpath
import tarfile
from typing import TYPE_CHECKING

from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import LONGEST, NOT_THERE, FileError

if TYPE_CHECKING:
    from mooring.sandbox.programs.shell import Shell


def tar(shell: Shell, words: list[str]) -> int:
    """Create (`cf - PATH…`) or extract (`xf - [-C FOLDER]`) an archive."""
    flags, rest = (words[0].removeprefix("-"), words[1:]) if words else ("", [])
    if set(flags) == {"c", "f"} and len(rest) > 1 and rest[0] == "-":
        return _create(shell, rest[1:])
    if {"x", "f"} <= set(flags) <= {"x", "m", "f", "o"} and rest[:1] == ["-"]:
        if len(rest) == 1:
            return _extract(shell, shell.files.folder)
        if len(rest) == 3 and rest[1] == "-C":
            return _extract(shell, rest[2])
    raise UnknownProgramError("tar")


def _create(shell: Shell, paths: list[str]) -> int:
    buffer, status = io.BytesIO(), 0
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in paths:
            if path.startswith("/"):
                shell.complain("tar: removing leading '/' from member names\n")
            if shell.files.find(path, shell.now, follow=False) is None:
                shell.complain(f"tar: {path}: {NOT_THERE}\n")
                status = 1
                continue
            _add(shell, archive, path)
    shell.print(buffer.getvalue().decode(errors="surrogateescape"))
    return status


def _add(shell: Shell, archive: tarfile.TarFile, path: str) -> None:
    """Add a file, or a folder with all that is in it."""
    file = shell.files.find(path, shell.now, follow=False)
    if file is None:
        return
    shell.work.spend(16)
    member = tarfile.TarInfo(path.strip("/") or ".")
    member.mode, member.uid, member.gid = file.mode & 0o7777, file.uid, file.gid
    if file.is_link:
        member.type, member.linkname = tarfile.SYMTYPE, file.content or ""
        archive.addfile(member)
        return
    if not file.is_folder:
        content = shell.files.read(path, shell.now).encode(errors="surrogateescape")
        shell.work.copy(len(content))
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
        return
    member.type = tarfile.DIRTYPE
    archive.addfile(member)
    for name in shell.files.list(path, shell.now):
        _add(shell, archive, posixpath.join(path, name))


def _extract(shell: Shell, folder: str) -> int:
    data = "".join(shell.read_input()).encode(errors="surrogateescape")
    shell.work.copy(len(data))
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                _place(shell, archive, member, posixpath.join(folder, member.name.lstrip("/")))
    except tarfile.TarError:
        shell.complain("tar: invalid tar header checksum\n")
        return 1
    except FileError as error:
        shell.complain(f"tar: {error}\n")
        return 1
    return 0


def _place(shell: Shell, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    shell.work.spend(16)
    _make_folders(shell, path if member.isdir() else posixpath.dirname(path))
    if member.isdir():
        return
    if member.issym():
        shell.files.make_link(path, member.linkname, shell.now)
    elif member.isreg() and not member.issparse():
        source = archive.extractfile(member)
        content = source.read(LONGEST + 1) if source is not None else b""
        shell.work.copy(len(content))
        shell.files.write(path, content.decode(errors="surrogateescape"), shell.now, member.mode & 0o777)
    else:
        raise UnknownProgramError("tar")


def _make_folders(shell: Shell, path: str) -> None:
    """Make a folder and those above it, as far as they are missing."""
    shell.work.spend(4)
    if path.strip("/") and shell.files.find(path, shell.now) is None:
        _make_folders(shell, posixpath.dirname(path))
        shell.files.make_folder(path, shell.now)
