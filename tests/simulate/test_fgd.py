"""The FGD experiment (ATC'23): six policies in examples/fgd against the published results.

The openb trace is not part of this repository. To run the large comparison, set MOORING_TRACES to a directory
with openb/ (node and pod lists), orders/ (arrival orders by seed) and expected-fgd-seeds.csv.
"""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mooring.simulate.plan import compile_plan
from mooring.simulate.running import run_once
from mooring.simulate.scenario import load_scenario, parse_scenario
from mooring.simulate.tables import Tables
from tests.simulate.runs import EXAMPLES

FOLDER = EXAMPLES / "fgd"
TRACES = Path(os.environ.get("MOORING_TRACES", "/nonexistent"))
LOADS = (50, 80, 90, 95, 100, 110, 120, 130)
DETERMINISTIC = ("DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
needs_traces = pytest.mark.skipif(
    not (TRACES / "openb").is_dir(), reason="set MOORING_TRACES to a directory with the openb trace"
)


def curves(tables: Tables) -> dict[str, np.ndarray[Any, Any]]:
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    import curves as example  # type: ignore[import-not-found]

    found: dict[str, np.ndarray[Any, Any]] = example.curves(tables)
    return found


def experiment(trace: str, policy: str, seed: int) -> Tables:
    """One run of the published experiment, with its arrival order and its order of nodes."""
    text = (FOLDER / "fgd-experiment.yaml").read_text()
    text = text.replace("./openb/", f"{TRACES}/openb/").replace("path: openb/", f"path: {TRACES}/openb/")
    text = text.replace("_default.csv.gz", f"_{trace}.csv.gz")
    text = text.replace("arrivals: shuffled, fill: 1.3", f"order: {TRACES}/orders/{trace}-pods.csv.gz")
    text = text.replace("gpu_node.csv.gz}", f"gpu_node.csv.gz, order: {TRACES}/orders/{trace}-nodes.csv.gz}}")
    text = text.replace("seeds: 42..51", f"seeds: {seed}")
    plan = compile_plan(parse_scenario(text, str(FOLDER / "fgd-experiment.yaml")))
    return run_once(plan, next(each for each in plan.policies if each.name == policy), seed)


def differences(trace: str, policy: str, seed: int) -> list[float]:
    """How far a run is from the published figures, in points of percent."""
    with (TRACES / "expected-fgd-seeds.csv").open() as file:
        (row,) = [
            row
            for row in csv.DictReader(file)
            if (row["trace"], row["policy"], row["seed"]) == (trace, policy, str(seed))
        ]
    found = curves(experiment(trace, policy, seed))
    return [abs(found[name][load] - float(row[f"{name}_{load}"])) for name in found for load in LOADS]


@needs_traces
@pytest.mark.parametrize("policy", DETERMINISTIC)
def test_the_published_figures_are_reproduced(policy: str) -> None:
    assert max(differences("default", policy, 42)) <= 0.01


def test_a_small_trace_fills_up_alike_under_every_policy() -> None:
    """Golden figures of the synthetic trace: allocated GPUs in percent when all pods have arrived."""
    plan = compile_plan(load_scenario(FOLDER / "synthetic.yaml"))
    found = {}
    for policy in plan.policies:
        tables = run_once(plan, policy, 1)
        lines = curves(tables)
        found[policy.name] = (round(float(lines["alloc"][-1]), 2), round(float(lines["frag"][-1]), 2))
        used = tables.requests("alibabacloud.com/gpu-milli")[~np.isnan(tables.pods.bound)].sum()
        assert used <= tables.nodes.resources["alibabacloud.com/gpu-milli"].sum()
    assert found == GOLDEN


GOLDEN = {"Random": (96.35, 3.47), "BestFit": (98.88, 1.12), "FGD": (98.42, 1.58)}
