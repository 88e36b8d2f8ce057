"""The benchmarks on a real API server, at a size that proves only that they measure."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.deploy.manifests import ROOT
from tests.live.control_plane import ControlPlane

SMALL = ("--nodes", "10", "--pods", "20", "--output", "json")


def measured(plane: ControlPlane, *options: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "benchmarks.drain", "--kubeconfig", str(plane.kubeconfig()), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results


def test_a_backlog_is_drained(control_plane: ControlPlane) -> None:
    rows = ("plain", "anti-affinity")
    results = measured(control_plane, *SMALL, "--rows", *rows, "--schedulers", "bind-only", "mooring")
    assert [(r["row"], r["scheduler"], r["bound"]) for r in results] == [
        ("plain", "bind-only", 20),
        ("plain", "mooring", 20),
        ("anti-affinity", "bind-only", 10),
        ("anti-affinity", "mooring", 10),
    ]
    assert all(r["pods_per_s"] > 0 and r["cpu_ms_per_pod"] > 0 and r["rss_mb"] > 0 for r in results)
    left = control_plane.request("GET", "/api/v1/nodes?labelSelector=mooring-benchmark")
    assert json.loads(left)["items"] == []


def test_latency_is_measured(control_plane: ControlPlane) -> None:
    (result,) = measured(control_plane, *SMALL, "--latency", "--schedulers", "mooring")
    assert 0 < result["p50_ms"] <= result["p99_ms"] <= result["max_ms"]
