"""The image: what goes into it makes a Mooring that runs, and it runs as nobody in particular."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from mooring import __version__
from tests.deploy.manifests import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, flags=re.MULTILINE)


def context(folder: Path) -> None:
    """What the Dockerfile copies of the tree, as far as .dockerignore lets it."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] not in "#"]
    allowed = {pattern.removeprefix("!") for pattern in patterns if pattern.startswith("!")}
    assert patterns[0] == "*"
    for copy in instructions("COPY"):
        if copy.startswith("--from"):
            continue
        *sources, target = copy.split()
        for source in sources:
            assert any(fnmatch.fnmatch(source, pattern) for pattern in allowed), source
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, folder / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, folder / target)


@pytest.mark.slow
def test_the_installation_runs(tmp_path: Path) -> None:
    """The Dockerfile's own command, on the Dockerfile's own files; only dependencies are those at hand."""
    pytest.importorskip("hatchling", reason="needs hatchling, which builds the wheel: pip install hatchling")
    source, install = tmp_path / "source", tmp_path / "install"
    source.mkdir()
    context(source)
    (command,) = instructions("RUN")
    assert command.startswith("pip install ")
    assert "--prefix /install" in command
    offline = ["--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check", "--quiet"]
    offline.append("--ignore-installed")  # or pip would uninstall the one that runs this test
    arguments = shlex.split(command.replace("/install", str(install)))[1:]
    run([sys.executable, "-m", "pip", *arguments, *offline], cwd=source)
    packages = sysconfig.get_path("purelib", vars={"base": str(install)})
    dependencies = sysconfig.get_path("purelib")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((packages, dependencies))}
    where = [sys.executable, "-c", "import mooring; print(mooring.__file__)"]
    assert run(where, tmp_path, environment).startswith(str(install))
    mooring = str(install / "bin" / "mooring")
    assert __version__ in run([mooring, "--version"], tmp_path, environment)
    assert "--leader-elect" in run([mooring, "scheduler", "--help"], tmp_path, environment)


def run(command: list[str], cwd: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_not_root() -> None:
    (user,) = instructions("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)  # a name could not be told from root


def test_it_is_the_command() -> None:
    assert instructions("ENTRYPOINT") == ['["mooring"]']
    assert not instructions("CMD")


def test_both_stages_have_the_same_python() -> None:
    build, final = (line.split()[0] for line in instructions("FROM"))
    assert build == final
