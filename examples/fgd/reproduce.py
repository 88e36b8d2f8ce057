"""Run the FGD experiment and compare it with the published figures.

    python examples/fgd/reproduce.py TRACES --workers 2                   # default trace, 60 runs
    python examples/fgd/reproduce.py TRACES --trace all --workers 2       # and its variants
    python examples/fgd/reproduce.py TRACES --own-shuffles --workers 2    # our own arrival orders

TRACES has openb/ (node and pod lists), orders/ (published arrival orders by seed), expected-fgd-seeds.csv and
expected-fgd.csv. With the published orders every figure of the deterministic policies must agree to 0.01
points of percent. Random, and all policies with our own shuffles, are compared by the mean allocation of ten
seeds: 0.3 points, or 0.6 where the published runs scatter by more than 0.4. Exit code 1: a figure disagrees.
"""

import argparse
import csv
import sys
import time
from collections import defaultdict
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from curves import curves

from mooring.cli.process import relax_collector
from mooring.simulate.plan import compile_plan
from mooring.simulate.running import run_once
from mooring.simulate.scenario import parse_scenario

SCENARIO = Path(__file__).with_name("fgd-experiment.yaml")
POLICIES = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
LOADS = (50, 80, 90, 95, 100, 110, 120, 130)
EXACT = 0.01 + 1e-9  # both sides are rounded to hundredths
ALL_SEEDS, FIRST_SEEDS = range(42, 52), range(42, 45)


@lru_cache(maxsize=1)
def plan_of(traces, trace, own):
    """The experiment on one of the pod lists, with our own or the published order of arrivals and nodes."""
    text = SCENARIO.read_text().replace("_default.csv.gz", f"_{trace}.csv.gz")
    text = text.replace("./openb/", f"{traces}/openb/").replace("path: openb/", f"path: {traces}/openb/")
    if not own:
        orders = f"{traces}/orders/{trace}"
        text = text.replace("arrivals: shuffled, fill: 1.3", f"order: {orders}-pods.csv.gz")
        text = text.replace("order: shuffled", f"order: {orders}-nodes.csv.gz")
    return compile_plan(parse_scenario(text, str(SCENARIO)))


def run(traces, own, case):
    """The curves of one run (trace, policy, seed), and its CPU seconds."""
    trace, policy, seed = case
    plan = plan_of(traces, trace, own)
    began = time.process_time()
    tables = run_once(plan, next(each for each in plan.policies if each.name == policy), seed)
    return case, curves(tables), time.process_time() - began


def published(traces):
    """The published figures of each (trace, policy, seed)."""
    rows = {}
    with (traces / "expected-fgd-seeds.csv").open() as file:
        for row in csv.DictReader(file):
            case = row["trace"], row["policy"], int(row["seed"])
            rows[case] = {key: float(row[key]) for key in row if key.partition("_")[2].isdigit()}
    return rows


def difference(found, expected):
    """How far a run is from the published figures at most, in points of percent."""
    return max(
        abs(found[name][load] - expected[f"{name}_{load}"])
        for name in ("alloc", "frag", "fragratio")
        for load in LOADS
    )


def compare_means(traces, allocated):
    """Print the mean allocation at 100 % load by trace and policy; return how many disagree."""
    with (traces / "expected-fgd.csv").open() as file:
        means = {(row["trace"], row["policy"]): row for row in csv.DictReader(file)}
    wrong = 0
    for (trace, policy), values in sorted(allocated.items()):
        mean, row = float(np.mean(values)), means.get((trace, policy))
        line = f"{trace} {policy}: mean of {len(values)} seeds {mean:.2f}"
        if row is not None and len(values) == len(ALL_SEEDS):
            bound = 0.6 if float(row["alloc_100_sd"]) > 0.4 else 0.3
            agrees = abs(mean - float(row["alloc_100_mean"])) <= bound
            wrong += int(not agrees)
            line += f", published {row['alloc_100_mean']}: {'agrees' if agrees else 'DISAGREES'}"
        print(line, flush=True)
    return wrong


def cases_of(options):
    lists = sorted(options.traces.glob("openb/openb_pod_list_*.csv.gz"))
    traces = options.trace
    if traces == ["all"]:
        traces = [path.name.removesuffix(".csv.gz").removeprefix("openb_pod_list_") for path in lists]
    for trace in traces:
        ordered = (options.traces / "orders" / f"{trace}-pods.csv.gz").exists()
        every = trace == "default" or options.own_shuffles
        for policy in options.policy:
            if options.own_shuffles or (ordered and (every or policy != "Random")):
                yield from ((trace, policy, seed) for seed in (ALL_SEEDS if every else FIRST_SEEDS))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", type=lambda text: Path(text).resolve(), metavar="TRACES")
    parser.add_argument("--trace", nargs="+", default=["default"], help='or "all" (default: default)')
    parser.add_argument("--policy", nargs="+", default=POLICIES, choices=POLICIES, help="(default: all six)")
    parser.add_argument("--own-shuffles", action="store_true", help="shuffle arrivals and nodes ourselves")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    options = parser.parse_args()
    relax_collector()
    expected, cases = published(options.traces), list(cases_of(options))
    allocated, wrong, compared = defaultdict(list), 0, 0
    began, cpu = time.monotonic(), 0.0
    with get_context("fork").Pool(options.workers) as pool:
        work = partial(run, options.traces, options.own_shuffles)
        for case, found, seconds in pool.imap_unordered(work, cases):
            line, cpu = f"{' '.join(map(str, case))}: {seconds:.1f} s", cpu + seconds
            if options.own_shuffles or case[1] == "Random":
                allocated[case[:2]].append(found["alloc"][100])
            else:
                off = difference(found, expected[case])
                compared, wrong = compared + 1, wrong + int(off > EXACT)
                line += f", {off:.4f} off{', DISAGREES' if off > EXACT else ''}"
            print(line, flush=True)
    wrong += compare_means(options.traces, allocated)
    print(
        f"{len(cases)} runs in {time.monotonic() - began:.0f} s ({cpu:.0f} s of CPU time); "
        f"{compared} compared exactly; disagreements: {wrong}"
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
