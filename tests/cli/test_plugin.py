"""`mooring plugin new` and `mooring plugin list`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml

from mooring import __version__
from mooring.framework.extension_points import EXTENSION_POINTS
from tests.cli.command import mooring
from tests.cli.test_schedule import ROOT


@pytest.mark.parametrize("name", ["gpu-pack", "gpu_pack", "GpuPack"])
def test_however_it_is_written_the_names_are_the_same(tmp_path: Path, name: str) -> None:
    done = mooring("plugin", "new", name, cwd=tmp_path)
    assert done.returncode == 0
    assert "--plugin gpu_pack:GpuPack" in done.stdout
    written = (tmp_path / "gpu-pack" / "gpu_pack.py").read_text()
    assert written.count("class GpuPack(Plugin[GpuPackArgs])") == 1


@pytest.mark.slow
def test_what_it_writes_runs_as_it_is(tmp_path: Path) -> None:
    mooring("plugin", "new", "rack-aware", cwd=tmp_path)
    place = tmp_path / "rack-aware"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"], cwd=place, capture_output=True, text=True, check=False
    )
    assert "3 passed" in done.stdout, done.stdout
    checked = mooring(
        "plugin", "list", "--config", "scheduler.yaml", "--plugin", "rack_aware:RackAware", cwd=place
    )
    assert checked.returncode == 0
    [line] = [line for line in checked.stdout.splitlines() if line.startswith("RackAware ")]
    assert line.split() == ["RackAware", "filter,", "score", "default-scheduler", "(10)"]


@pytest.mark.slow
def test_a_package_works_from_a_fresh_environment(tmp_path: Path) -> None:
    """Install Mooring's wheel and the package as a user does; only their dependencies are those at hand."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = str(venv / "bin" / "python")
    purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", purelib], capture_output=True, text=True, check=True).stdout.strip()
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: str, cwd: Path = tmp_path) -> str:
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    offline = ("-q", "--no-compile", "--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed")
    run(python, "-m", "pip", "install", *offline, str(ROOT))
    command = str(venv / "bin" / "mooring")
    run(command, "plugin", "new", "rack-aware", "--package")
    place = tmp_path / "rack-aware"
    run(python, "-m", "pip", "install", *offline, str(place))
    assert "3 passed" in run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=place)
    listed = run(command, "plugin", "list", "--config", "scheduler.yaml", cwd=place)
    assert next(line for line in listed.splitlines() if line.startswith("RackAware ")).endswith("(10)")
    assert "ok (v1" in run(command, "config", "check", "deploy/scheduler.yaml", cwd=place)
    if shutil.which("kubectl"):
        manifests = list(yaml.safe_load_all(run("kubectl", "kustomize", "deploy", cwd=place)))
        [deployment] = [each for each in manifests if each["kind"] == "Deployment"]
        assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "rack-aware:0.1.0"
        [config] = [each for each in manifests if each["kind"] == "ConfigMap"]
        assert "RackAware" in config["data"]["scheduler.yaml"]


def test_the_files_of_a_package(tmp_path: Path) -> None:
    done = mooring("plugin", "new", "rack-aware", "--package", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    place = tmp_path / "rack-aware"
    project = tomllib.loads((place / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["mooring.plugins"] == {"rack-aware": "rack_aware:RackAware"}
    assert (place / "src" / "rack_aware" / "__init__.py").is_file()
    base = place / "deploy" / "mooring" / "base"
    for resource in yaml.safe_load((base / "kustomization.yaml").read_text())["resources"]:
        assert (base / resource).is_file()
    assert f"FROM mooring:{__version__}" in (place / "Dockerfile").read_text()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    mooring("plugin", "new", "rack", cwd=tmp_path)
    (tmp_path / "rack" / "rack.py").write_text("mine")
    again = mooring("plugin", "new", "rack", cwd=tmp_path)
    assert again.returncode == 2
    assert "rack/rack.py: already exists" in again.stderr
    assert (tmp_path / "rack" / "rack.py").read_text() == "mine"


@pytest.mark.parametrize("name", ["", "1st", "a.b", "class", "../up"])
def test_a_name_that_is_none(tmp_path: Path, name: str) -> None:
    done = mooring("plugin", "new", name, cwd=tmp_path)
    assert done.returncode == 2
    assert "such as gpu-pack" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_table_of_plugins() -> None:
    rows = json.loads(mooring("plugin", "list", "-o", "json").stdout)
    by_name = {row["name"]: row for row in rows}
    assert by_name["ImageLocality"]["extensionPoints"] == ["score"]
    assert by_name["ImageLocality"]["profiles"] == {"default-scheduler": 1}
    points = ["preFilter", "filter", "preScore", "score", "placementScore"]
    assert by_name["NodeResourcesFit"]["extensionPoints"] == points
    assert all(row["description"] for row in rows)
    assert {point for row in rows for point in row["extensionPoints"]} <= set(EXTENSION_POINTS)


def test_a_configuration_that_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("kind: Something")
    done = mooring("plugin", "list", "--config", "config.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "config.yaml" in done.stderr
