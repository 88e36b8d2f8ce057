"""The FGD experiment (ATC'23): six policies in examples/fgd against the published results.

The openb trace is not part of this repository. To run the large comparison, set MOORING_TRACES to a directory
with openb/ (node and pod lists), orders/ (arrival orders by seed) and expected-fgd-seeds.csv.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from mooring.simulate.plan import compile_plan
from mooring.simulate.running import run_once
from mooring.simulate.scenario import load_scenario
from tests.simulate.runs import EXAMPLES

FOLDER = EXAMPLES / "fgd"
TRACES = Path(os.environ.get("MOORING_TRACES", "/nonexistent"))
DETERMINISTIC = ("DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
needs_traces = pytest.mark.skipif(
    not (TRACES / "openb").is_dir(), reason="set MOORING_TRACES to a directory with the openb trace"
)


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)


@needs_traces
@pytest.mark.parametrize("policy", DETERMINISTIC)
def test_the_published_figures_are_reproduced(policy: str) -> None:
    """One seed each; `python examples/fgd/reproduce.py` compares all of them."""
    reproduce = import_module("reproduce")
    case = ("default", policy, 42)
    _, found, _ = reproduce.run(TRACES, False, case)
    assert reproduce.difference(found, reproduce.published(TRACES)[case]) <= reproduce.EXACT


def test_a_small_trace_fills_up_alike_under_every_policy() -> None:
    """Golden figures of the synthetic trace: allocated GPUs in percent when all pods have arrived."""
    plan = compile_plan(load_scenario(FOLDER / "synthetic.yaml"))
    found = {}
    for policy in plan.policies:
        tables = run_once(plan, policy, 1)
        lines = import_module("curves").curves(tables)
        found[policy.name] = (round(float(lines["alloc"][-1]), 2), round(float(lines["frag"][-1]), 2))
        used = tables.requests("alibabacloud.com/gpu-milli")[~np.isnan(tables.pods.bound)].sum()
        assert used <= tables.nodes.resources["alibabacloud.com/gpu-milli"].sum()
    assert found == GOLDEN


GOLDEN = {"Random": (96.38, 3.3), "BestFit": (98.72, 1.28), "FGD": (98.85, 1.15)}
