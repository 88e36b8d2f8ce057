"""Sweeps: equal results however they are run, and nothing is run twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli.simulate import simulate
from mooring.simulate import sweeping
from mooring.simulate.sweeping import Sweep, grid, parse_values
from tests.simulate.test_command import PACKED, SCENARIO
from tests.simulate.test_scenario import NODE, POD

SHORT = SCENARIO.replace("for: 2m", "for: 20s")
COUNTS = "cluster.0.generate.count=2..3"


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    for name, text in (("node", NODE), ("pod", POD), ("packed", PACKED), ("scenario", SHORT)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return str(tmp_path / "scenario.yaml")


def invoke(*args: str) -> Result:
    return CliRunner().invoke(simulate, ["sweep", *args])


def contents(root: Path) -> dict[str, bytes]:
    """All that may not differ between equal sweeps."""
    return {
        str(file.relative_to(root)): file.read_bytes()
        for file in sorted(root.rglob("*"))
        if file.is_file() and file.name != "timing.json"
    }


def test_values() -> None:
    assert parse_values("a.b=1..3") == ("a.b", [1, 2, 3])
    assert parse_values("seeds=5,x,2.5") == ("seeds", [5, "x", 2.5])
    with pytest.raises(ValueError, match="expected PATH=FIRST"):
        parse_values("nothing")
    with pytest.raises(ValueError, match="at most 10000"):
        grid([("a", range(200)), ("b", range(200))])
    points = grid([("a.count", [1, 2]), ("b.count", [1, 2])])
    assert len({point.name for point in points}) == 4
    assert len(grid([("a", range(200)), ("b", range(200))], sample=7)) == 7
    assert grid([("a", range(20))], sample=3) == grid([("a", range(20))], sample=3)


def test_results_do_not_depend_on_the_number_of_workers(scenario: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    result = invoke(scenario, "--set", COUNTS, "--out", str(one), "-o", "json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [(row["point"], row["policy"]) for row in rows] == [
        ("count=2", "default"), ("count=2", "packed"), ("count=3", "default"), ("count=3", "packed"),
    ]  # fmt: skip
    assert rows[0]["metrics"]["nodes"]["mean"] == 2
    result = invoke(scenario, "--set", COUNTS, "--out", str(two), "--workers", "2")
    assert result.exit_code == 0, result.output
    assert "8 runs, 0 of them there already" in result.output
    assert contents(one) == contents(two)


def test_an_interrupted_sweep_continues(
    scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points, root = grid([parse_values(COUNTS)]), tmp_path / "runs"
    running = Sweep(scenario, points, root).run()
    for _ in range(3):
        next(running)
    running.close()  # type: ignore[attr-defined]
    made = []
    run_task = sweeping.run_task
    monkeypatch.setattr(sweeping, "run_task", lambda *args: made.append(args) or run_task(*args))  # type: ignore[func-returns-value]
    again = Sweep(scenario, points, root)
    assert again.progress.repeated == 3
    assert len(list(again.run())) == len(made) == 5
    assert not Sweep(scenario, points, root).todo


def test_wrong_sweeps(scenario: str, tmp_path: Path) -> None:
    result = invoke(scenario, "--set", "nowhere.at.all=1..2", "--out", str(tmp_path / "runs"))
    assert result.exit_code == 2
    assert 'unknown field "nowhere"' in result.output
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_on_a_ray_cluster_of_two_nodes(scenario: str, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'mooring[ray]'")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        here, there = tmp_path / "here", tmp_path / "there"
        assert invoke(scenario, "--set", COUNTS, "--out", str(here)).exit_code == 0
        result = invoke(scenario, "--set", COUNTS, "--out", str(there), "--ray", cluster.address)
        assert result.exit_code == 0, result.output
        assert contents(here) == contents(there)
        assert not ray.is_initialized()
    finally:
        cluster.shutdown()
