"""python -m benchmarks.drain: how fast does a scheduler bind a backlog, on a real API server?

Nodes and a backlog of pods are created while no scheduler runs. Then one is started, and a watch shows when
the first pod was bound and when the last. Every run has a control plane of its own (etcd and kube-apiserver
of KUBEBUILDER_ASSETS), or the one of --kubeconfig, from which nodes and pods are deleted again. Everything
shares one machine: read the ratios, not the seconds. --latency measures single pods into an idle cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path

import msgspec

from benchmarks import claims, latency, pod_groups
from benchmarks.api_server import NODES, PODS, Api, connect, control_plane
from benchmarks.backlog import ROWS, backlog_size, node, pod
from benchmarks.scheduler_process import COMMANDS, SchedulerProcess, at_hand, running

PATIENCE = 60  # seconds without a bind, after which a run ends as it is


class Drain(msgspec.Struct):
    """What a run showed. CPU time counts from the scheduler's start, `…_draining` from its first bind."""

    row: str
    scheduler: str
    nodes: int
    pods: int
    bound: int = 0
    first_bind_s: float = 0
    drain_s: float = 0
    pods_per_s: float = 0
    cpu_ms_per_pod: float = 0
    cpu_ms_per_pod_draining: float = 0
    rss_mb: int = 0


class Options(argparse.Namespace):
    kubeconfig: Path | None
    nodes: int
    pods: int
    rows: list[str]
    schedulers: list[str]
    latency: bool
    output: str
    folder: Path


@contextmanager
def api_server(options: Options, folder: Path, row: str = "") -> Iterator[Path]:
    """The kubeconfig of an API server without nodes or pods of ours, before and after."""
    if options.kubeconfig is None:
        flags = pod_groups.API_SERVER_FLAGS if row in pod_groups.MEMBERS else ()
        with control_plane(folder, flags) as kubeconfig:
            yield kubeconfig
        return
    folder.mkdir(parents=True)
    try:
        yield options.kubeconfig
    finally:
        asyncio.run(_clean(options.kubeconfig))


async def _clean(kubeconfig: Path) -> None:
    async with connect(kubeconfig) as api:
        await api.clean(claims.paths_to_clean())


async def drain(kubeconfig: Path, folder: Path, result: Drain) -> None:
    """Create the backlog, run the scheduler, fill in the result."""
    async with connect(kubeconfig) as api:
        await api.prepare()
        await api.create_all(NODES, (node(i) for i in range(result.nodes)))
        if result.row in pod_groups.MEMBERS:
            await pod_groups.make_groups(api, result.row, result.pods)
        await api.create_all(PODS, (pod(result.row, result.scheduler, i) for i in range(result.pods)))
        if result.row in claims.ROWS:
            await claims.publish_devices(api, result.nodes)
            await claims.make_claims(api, result.row)
        gates = pod_groups.GATES if result.row in pod_groups.MEMBERS else ""
        with running(result.scheduler, kubeconfig, folder, gates) as process:
            await _watch(api, process, result)


async def _watch(api: Api, process: SchedulerProcess, result: Drain) -> None:
    """Until all pods are bound, or nothing happens any more."""
    began = first = last = time.monotonic()
    cpu_at_first = 0.0
    seen: set[str] = set()
    async with aclosing(api.bindings()) as bindings:
        while len(seen) < result.pods:
            try:
                names = await asyncio.wait_for(anext(bindings), PATIENCE)
            except TimeoutError:
                process.check()
                break
            last = time.monotonic()
            if names and not seen:
                first, cpu_at_first = last, process.cpu_seconds()
            seen.update(names)
    cpu = process.cpu_seconds()
    result.bound = len(seen)
    result.rss_mb = process.rss_mb()
    if last > first:
        result.first_bind_s = round(first - began, 2)
        result.drain_s = round(last - first, 2)
        result.pods_per_s = round(result.bound / (last - first), 1)
        result.cpu_ms_per_pod = round(1000 * cpu / result.bound, 2)
        result.cpu_ms_per_pod_draining = round(1000 * (cpu - cpu_at_first) / result.bound, 2)


def run_drains(options: Options) -> list[Drain]:
    results = []
    for row in options.rows:
        for scheduler in options.schedulers:
            result = Drain(row, scheduler, options.nodes, backlog_size(row, options.nodes, options.pods))
            folder = options.folder / f"{row}-{scheduler}"
            with api_server(options, folder, row) as kubeconfig:
                asyncio.run(drain(kubeconfig, folder, result))
            print(json.dumps(msgspec.to_builtins(result)), file=sys.stderr, flush=True)
            results.append(result)
    return results


def run_latency(options: Options) -> list[latency.Latency]:
    schedulers = [name for name in options.schedulers if name != "bind-only"]
    folder = options.folder / "latency"
    with api_server(options, folder) as kubeconfig:
        return asyncio.run(latency.measure(kubeconfig, folder, schedulers, options.nodes, options.pods))


# ---- reports


def drain_table(results: list[Drain]) -> str:
    rates = {(result.row, result.scheduler): result.pods_per_s for result in results}

    def ratio(result: Drain, other: str) -> str:
        rate = rates.get((result.row, other))
        return f"{result.pods_per_s / rate:.2f}" if rate else "-"

    heading = (
        "backlog",
        "scheduler",
        "bound",
        "pods/s",
        "÷ bind-only",
        "÷ kube-sched.",
        "CPU ms/pod",
        "RSS MB",
    )
    lines = [heading] + [
        (
            r.row,
            r.scheduler,
            f"{r.bound}/{r.pods}",
            f"{r.pods_per_s:.0f}",
            ratio(r, "bind-only"),
            ratio(r, "kube-scheduler"),
            f"{r.cpu_ms_per_pod:.2f}",
            str(r.rss_mb),
        )
        for r in results
    ]
    return _aligned(lines)


def latency_table(results: list[latency.Latency]) -> str:
    heading = ("scheduler", "nodes", "pods", "p50 ms", "p99 ms", "max ms")
    rows = [tuple(str(value) for value in msgspec.structs.astuple(result)) for result in results]
    return _aligned([heading, *rows])


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    """Text to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    words = [not column[1][:1].isdigit() and column[1] != "-" for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{c:<{w}}" if t else f"{c:>{w}}" for c, w, t in zip(row, widths, words, strict=True))
        for row in rows
    )


# ---- command line


def parse(arguments: list[str] | None = None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drain", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, help="an API server to use, of a cluster for tests only")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, help="default: 5000, or 300 with --latency")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--schedulers", nargs="+", choices=COMMANDS, default=at_hand())
    parser.add_argument("--latency", action="store_true", help="single pods into an idle cluster")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--folder", type=Path, help="where logs and configurations stay")
    options = parser.parse_args(arguments, Options())
    options.pods = options.pods or (300 if options.latency else 5000)
    return options


def report(form: str, results: object, table: str) -> None:
    print(json.dumps(msgspec.to_builtins(results), indent=2) if form == "json" else table)


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory() as temporary:
        options.folder = options.folder or Path(temporary)
        if options.latency:
            waits = run_latency(options)
            report(options.output, waits, latency_table(waits))
        else:
            drains = run_drains(options)
            report(options.output, drains, drain_table(drains))


if __name__ == "__main__":
    main()
