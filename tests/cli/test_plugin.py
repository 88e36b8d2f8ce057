"""`mooring plugin new` and `mooring plugin list`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.framework.extension_points import EXTENSION_POINTS
from tests.cli.test_schedule import mooring


@pytest.mark.parametrize("name", ["gpu-pack", "gpu_pack", "GpuPack"])
def test_however_it_is_written_the_names_are_the_same(tmp_path: Path, name: str) -> None:
    done = mooring("plugin", "new", name, cwd=tmp_path)
    assert done.returncode == 0
    assert "--plugin gpu_pack:GpuPack" in done.stdout
    written = (tmp_path / "gpu-pack" / "gpu_pack.py").read_text()
    assert written.count("class GpuPack(Plugin[GpuPackArgs])") == 1


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
    assert by_name["NodeResourcesFit"]["extensionPoints"] == ["preFilter", "filter", "preScore", "score"]
    assert all(row["description"] for row in rows)
    assert {point for row in rows for point in row["extensionPoints"]} <= set(EXTENSION_POINTS)


def test_a_configuration_that_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("kind: Something")
    done = mooring("plugin", "list", "--config", "config.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "config.yaml" in done.stderr
