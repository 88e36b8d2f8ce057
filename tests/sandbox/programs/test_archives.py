"""tar, as `kubectl cp` uses it."""

from __future__ import annotations

import io
import tarfile

import pytest

from mooring.api.meta import ObjectMeta
from mooring.sandbox.programs.files import Files, Mount
from mooring.sandbox.programs.program import Outcome, run_command
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import ContainerSpec
from mooring.sandbox.programs.volume import Volume

BYTES = bytes(range(256)).decode(errors="surrogateescape")


def files() -> Files:
    return Files([Mount("/data", Volume()), Mount("/copy", Volume())])


def run(files: Files, *words: str, stdin: str | None = None) -> Outcome | None:
    return run_command(words, ContainerSpec(image="busybox"), Sources(ObjectMeta()), files, 1.0, stdin)


def archive(**members: str) -> str:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name.replace("_", "/"))
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content.encode()))
    return buffer.getvalue().decode(errors="surrogateescape")


def test_files_come_back_as_they_were() -> None:
    there = files()
    there.make_folder("/data/a", 0.0)
    there.write("/data/a/1", BYTES, 0.0, mode=0o600)
    created = run(there, "tar", "cf", "-", "/data/a")
    assert created is not None
    warning, packed = (text for _, text in created.output)
    assert warning == "tar: removing leading '/' from member names\n"
    assert created.errors == frozenset({0})
    extracted = run(there, "tar", "-xmf", "-", "-C", "/copy", stdin=packed)
    assert extracted is not None
    assert extracted.exit_code == 0
    file = there.find("/copy/data/a/1", 2.0)
    assert file is not None
    assert (file.content, file.mode & 0o777) == (BYTES, 0o600)


def test_missing_folders_are_made() -> None:
    there = files()
    assert run(there, "tar", "-xmf", "-", "-C", "/data", stdin=archive(a_b_c="1")) is not None
    assert there.read("/data/a/b/c", 2.0) == "1"


@pytest.mark.parametrize(
    ("words", "stdin", "error"),
    [
        (["xf", "-"], "no archive" * 200, "tar: invalid tar header checksum"),
        (["cf", "-", "/data/none"], None, "tar: /data/none: No such file or directory"),
    ],
)
def test_errors(words: list[str], stdin: str | None, error: str) -> None:
    outcome = run(files(), "tar", *words, stdin=stdin)
    assert outcome is not None
    assert outcome.exit_code == 1
    assert any(text.startswith(error) for _, text in outcome.output)


def test_members_may_be_anywhere_in_the_container() -> None:
    there = files()
    assert run(there, "tar", "-xmf", "-", "-C", "/data", stdin=archive(**{".._copy_a": "1"})) is not None
    assert there.read("/copy/a", 2.0) == "1"


def test_archives_that_grow_are_not_extracted() -> None:
    there = files()
    assert run(there, "tar", "xf", "-", "-C", "/data", stdin=archive(a="x" * 3_000_000)) is None
    listing = run(there, "ls", "/data")
    assert listing is not None
    assert listing.output == ()
