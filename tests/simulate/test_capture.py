"""Snapshots and recordings: taken from the sandbox, scrubbed, and simulated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mooring.api.kinds import NODES, PODS, ApiResource
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.cli.simulate import simulate as command
from mooring.client.port import Cluster
from mooring.client.virtual_time import VirtualTimeLoop
from mooring.config.findings import ConfigError
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.simulate.capture.recording import Recorder, read_lines
from mooring.simulate.capture.replaying import Replay
from mooring.simulate.capture.scrubbing import Scrubber
from mooring.simulate.capture.snapshot import read_snapshot, take_snapshot, write_snapshot
from mooring.simulate.plan import compile_plan
from mooring.simulate.running import run_once
from mooring.simulate.scenario import parse_scenario
from mooring.simulate.tables import Tables

SECRETS = ApiResource("", "v1", "secrets", True, KubeObject)
DISABLED = ("ServiceAccount", "TaintNodesByCondition")


def node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "2", "memory": "8Gi", "pods": "10"}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"team": "payments"}},
        "status": {"capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {
        "name": "c", "image": "registry.example/app:1", "env": [{"name": "PASSWORD", "value": "hunter2"}],
        "resources": {"requests": {"cpu": cpu}},
    }  # fmt: skip
    wanted = {
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"team": "payments"},
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**wanted, **spec}}


def on_sandbox(work: Callable[[Cluster], Awaitable[None]]) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = EmbeddedServer(clock=loop.time, seed=1, disable_admission_plugins=DISABLED)
        server.open()
        try:
            await work(server.cluster)
        finally:
            await server.stop()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())


def simulate(tmp_path: Path, entry: str) -> Tables:
    text = f"apiVersion: mooring/v1alpha1\nkind: Simulation\nspec:\n  ties: first\n  cluster: [{entry}]\n"
    plan = compile_plan(parse_scenario(text, str(tmp_path / "scenario.yaml")))
    return run_once(plan, plan.policies[0], 0)


def take(tmp_path: Path, scrubber: Scrubber | None = None) -> Path:
    async def work(cluster: Cluster) -> None:
        for name in ("a", "b"):
            await cluster.create(NODES, node(name))
        await cluster.create(PODS, pod("bound", nodeName="a"), "default")
        await cluster.create(PODS, pod("pending"), "default")
        await cluster.create(PODS, pod("large", cpu="3"), "default")
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s"},
            "stringData": {"k": "hunter2"},
        }
        await cluster.create(SECRETS, secret, "default")
        write_snapshot(await take_snapshot(cluster), tmp_path / "snap", "now", scrubber)

    on_sandbox(work)
    return tmp_path / "snap"


def test_bound_pods_stay_and_pending_ones_have_their_reasons(tmp_path: Path) -> None:
    folder = take(tmp_path)
    assert not any(b"hunter2" in file.read_bytes() for file in folder.iterdir())
    assert not (folder / "secrets.json").exists()
    assert json.loads((folder / "snapshot.json").read_text())["counts"]["pods"] == 3
    pods = simulate(tmp_path, "{snapshot: snap}").pods
    outcome = dict(zip(pods.name, zip(pods.node.tolist(), pods.reason, strict=True), strict=True))
    assert outcome["bound"] == (0, "")
    assert outcome["pending"][0] >= 0
    assert outcome["large"] == (-1, "NodeResourcesFit")


def test_a_scrubbed_snapshot_names_nothing_and_simulates_alike(tmp_path: Path) -> None:
    folder = take(tmp_path, Scrubber(b"key"))
    text = b"".join(file.read_bytes() for file in folder.iterdir())
    for word in (b"payments", b"registry.example", b'"bound"', b'"team"', b'"a"'):
        assert word not in text
    tables = simulate(tmp_path, "{snapshot: snap}")
    assert sorted(tables.pods.reason) == ["", "", "NodeResourcesFit"]
    selectors = [obj.spec.node_selector for obj in read_snapshot(folder) if isinstance(obj, Pod)]
    assert selectors == [{Scrubber(b"key").pseudonym("team"): Scrubber(b"key").pseudonym("payments")}] * 3


def test_a_snapshot_does_not_overwrite(tmp_path: Path) -> None:
    (tmp_path / "snap").mkdir()
    (tmp_path / "snap" / "mine").write_text("")
    with pytest.raises(FileExistsError):
        write_snapshot({}, tmp_path / "snap", "now", None)
    with pytest.raises(ValueError, match="not a snapshot\n  hint: mooring simulate import"):
        read_snapshot(tmp_path)


def test_a_recording_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "cluster.jsonl"

    async def work(cluster: Cluster) -> None:
        await cluster.create(NODES, node("a"))
        await cluster.create(PODS, pod("early", nodeName="a"), "default")
        with path.open("wb") as file:
            recorder = Recorder(cluster, file, "now", asyncio.get_running_loop().time)
            task = asyncio.create_task(recorder.run())
            await asyncio.sleep(5)
            await cluster.create(PODS, pod("gated", schedulingGates=[{"name": "g"}]), "default")
            await cluster.create(PODS, pod("second", cpu="2"), "default")
            await asyncio.sleep(10)
            await cluster.patch(PODS, "gated", {"spec": {"schedulingGates": None}}, "default")
            await cluster.create(NODES, node("b"))
            await asyncio.sleep(10)
            await cluster.delete(PODS, "early", "default")
            await cluster.delete(PODS, "second", "default")
            await asyncio.sleep(10)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    on_sandbox(work)
    tables = simulate(tmp_path, "{recording: {path: cluster.jsonl, speed: 2}}")
    pods = tables.pods
    rows = {name: row for row, name in enumerate(pods.name)}
    assert pods.node[rows["early"]] == 0
    assert pods.ended[rows["early"]] == pytest.approx(12.0, abs=0.6)
    assert pods.created[rows["second"]] == pytest.approx(2.0, abs=0.6)
    assert pods.bound[rows["second"]] == pytest.approx(7.0, abs=0.6)  # when the second node came
    assert pods.created[rows["gated"]] == pytest.approx(7.0, abs=0.6)  # when its gate was removed
    assert tables.nodes.name == ["a", "b"]
    faster = Replay(path, 4)
    assert faster.events[-1].at == pytest.approx(tables.pods.ended[rows["second"]] / 2)


def record_choices(tmp_path: Path) -> Path:
    """A recording of random choices: each pod is bound a second after it arrived; one pod leaves between an
    arrival and its binding."""
    path = tmp_path / "cluster.jsonl"

    async def work(cluster: Cluster) -> None:
        for name in ("a", "b", "c", "d"):
            await cluster.create(NODES, node(name))
        with path.open("wb") as file:
            recorder = Recorder(cluster, file, "now", asyncio.get_running_loop().time)
            task = asyncio.create_task(recorder.run())
            await asyncio.sleep(5)
            for number, choice in enumerate(("d", "b", "c", "a", "b")):
                name = f"p{number}"
                await cluster.create(PODS, pod(name, cpu="500m"), "default")
                await asyncio.sleep(0.5)
                if number == 4:
                    await cluster.delete(PODS, "p1", "default")  # only now is b the best node
                await asyncio.sleep(0.5)
                binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": choice}}
                await cluster.post(PODS, name, "binding", binding, "default")
                await asyncio.sleep(4)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    on_sandbox(work)
    return path


def replay(tmp_path: Path) -> str:
    """Replay the recording with recorded ties; what the command prints."""
    head = "apiVersion: mooring/v1alpha1\nkind: Simulation\nspec:\n"
    entry = "  ties: recorded\n  cluster: [{recording: {path: cluster.jsonl}}]\n"
    (tmp_path / "scenario.yaml").write_text(head + entry)
    return (
        CliRunner().invoke(command, [str(tmp_path / "scenario.yaml"), "--out", str(tmp_path / "runs")]).output
    )


def test_a_replay_with_recorded_ties_repeats_the_placements(tmp_path: Path) -> None:
    record_choices(tmp_path)
    assert "default seed 0: 5 of 5 pods on the recorded node" in replay(tmp_path)
    result = CliRunner().invoke(command, ["compare", str(tmp_path / "runs")])
    assert result.exit_code == 0, result.output


def test_the_first_difference_to_a_recording_is_explained(tmp_path: Path) -> None:
    path = record_choices(tmp_path)
    path.write_text(path.read_text().replace('"nodeName":"c"', '"nodeName":"d"'))
    assert "5 of 5 pods" not in replay(tmp_path)
    scenario = str(tmp_path / "scenario.yaml")
    result = CliRunner().invoke(command, ["compare", str(tmp_path / "runs"), "--scenario", scenario])
    assert result.exit_code == 1
    assert "first difference: default/p2 at" in result.output
    assert "recorded node d: score " in result.output
    assert "less than the chosen one (NodeResourcesFit -" in result.output


def test_recorded_ties_need_a_recording(tmp_path: Path) -> None:
    take(tmp_path)
    head = "apiVersion: mooring/v1alpha1\nkind: Simulation\nspec:\n"
    text = head + "  ties: recorded\n  cluster: [{snapshot: snap}]\n"
    with pytest.raises(ConfigError, match=r"spec\.ties: recorded needs a recording"):
        compile_plan(parse_scenario(text, str(tmp_path / "scenario.yaml")))


def test_a_recording_that_is_cut_off_is_read_to_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    head = '{"format":"mooring-recording","version":1,"started":"","scrubbed":false}\n'
    line = '{"t":1,"type":"APPLIED","object":{"kind":"Node","metadata":{"name":"a"}}}\n'
    path.write_text(head + line + line[:20])
    assert len(read_lines(path)) == 1
    path.write_text(head + "no\n" + line)
    with pytest.raises(ValueError, match=r"r\.jsonl:2: "):
        read_lines(path)
    path.write_text("{}")
    with pytest.raises(ValueError, match="not a recording"):
        read_lines(path)
