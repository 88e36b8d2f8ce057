"""Runs of a simulation on the page: the cluster at any moment of a run."""

from __future__ import annotations

import asyncio
from math import inf, nan
from pathlib import Path

import msgspec
import numpy as np
import pytest

from mooring.config import LoadedConfig, default_config
from mooring.core.build import registry_with
from mooring.simulate.pod_log import Outcome
from mooring.simulate.running import RUN, RunRecord
from mooring.simulate.tables import NodeTable, PodTable, Shape, Tables, write_tables
from mooring.web.columns import cluster_record
from mooring.web.queue import queue_record
from mooring.web.runs import RunSource, busiest, timeline


def write_run(folder: Path, policy: str = "default") -> Tables:
    """Write a run of 100 s: `early` from 10 to 60 s, `late` bound at 60 s after 40 s, `never` without a
    node; n2 joins at 50 s."""
    pods = PodTable(
        name=["early", "late", "never"],
        shape=np.array([0, 0, 1]),
        created=np.array([10.0, 20.0, 30.0]),
        run_time=np.array([50.0, 90.0, 10.0]),
        first_attempt=np.array([10.0, 20.0, 30.0]),
        bound=np.array([10.0, 60.0, nan]),
        node=np.array([0, 0, -1]),
        started=np.array([10.0, 60.0, nan]),
        ended=np.array([60.0, nan, nan]),
        outcome=np.array([Outcome.FINISHED, Outcome.RUNNING, Outcome.PENDING]),
        attempts=np.array([1, 2, 1]),
        reason=["", "", "NodeResourcesFit"],
        replaces=np.array([-1, -1, -1]),
    )
    nodes = NodeTable(
        ["n1", "n2"],
        ["large", ""],
        np.array([0.0, 50.0]),
        np.array([inf, inf]),
        {"cpu": np.array([2000.0, 2000.0]), "memory": np.array([1e9, 1e9]), "pods": np.array([110.0, 110.0])},
    )
    shapes = [Shape("default", "Job/train", 5, {"cpu": 1500}), Shape("other", "", 0, {"cpu": 9000})]
    tables = Tables(policy, 1, 100.0, 4, shapes, pods, nodes, {})
    folder.mkdir(parents=True)
    write_tables(tables, folder)
    record = RunRecord("test", policy, 1, "digest", "0", 100.0, 4, {"pods": 3.0})
    (folder / RUN).write_bytes(msgspec.json.encode(record))
    return tables


@pytest.fixture
def source(tmp_path: Path) -> RunSource:
    folders = [tmp_path / "default" / "seed-1", tmp_path / "packed" / "seed-1"]
    for folder in folders:
        write_run(folder, folder.parent.name)
    return RunSource(folders, LoadedConfig(default_config()), registry_with())


def show(source: RunSource, **moment: object) -> int:
    async def ask() -> int:
        return (await source.actions()["run/show"](moment)).status

    return asyncio.run(ask())


def test_a_moment_has_the_nodes_and_pods_of_that_time(source: RunSource) -> None:
    assert show(source, run="packed/seed-1", at=40) == 200
    assert source.core.cluster.table.names == ["n1"]
    placed = list(source.core.cluster.pods())
    assert [(pod.key, pod.node_name, pod.priority) for pod in placed] == [("default/early", "n1", 5)]
    record = queue_record(source.core, None)
    assert {pod.pod: pod.waiting.since[-9:] for pod in record.pods} == {
        "default/late": "00:00:20Z",
        "other/never": "00:00:30Z",
    }
    assert "packed, seed 1, at 40s of 1m 40s" in source.status()
    assert show(source, run="packed/seed-1", at=100) == 200
    columns = cluster_record(source.core).nodes
    assert (columns.names, columns.pod_counts) == (["n1", "n2"], [1, 0])
    assert columns.requested[0] == [1500, 0]
    assert columns.kinds[0].owner == "Job/train"


def test_a_moment_that_does_not_exist_changes_nothing(source: RunSource) -> None:
    before = source.state()
    assert before == {"run": "default/seed-1", "at": 10.0}
    assert show(source, run="../default", at=1) == 400
    assert show(source, run="default/seed-1", at="x") == 400
    assert source.state() == before
    assert show(source, run="default/seed-1", at=1e9) == 200
    assert source.state()["at"] == 100.0


def test_the_time_line_has_pending_pods_and_allocation(tmp_path: Path) -> None:
    tables = write_run(tmp_path / "run")
    assert busiest(tables) == 10.0
    lines = timeline(tables)
    at = {round(seconds): i for i, seconds in enumerate(lines["seconds"])}
    assert [lines["pending"][at[second]] for second in (5, 25, 40, 80)] == [0, 1, 2, 1]
    assert [lines["cpu"][at[second]] for second in (5, 25, 80)] == [0, 75, 37.5]
