"""Running workloads of scheduler_perf, each on a cluster of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mooring.api.objects import Pod
from mooring.client.virtual_time import VirtualTimeLoop
from mooring.config import LoadedConfig, default_config, load
from mooring.config.feature_gates import known_gates
from mooring.core.build import registry_with
from mooring.simulate.perf.bench_cluster import BenchCluster
from mooring.simulate.perf.measuring import DataItem, Progress
from mooring.simulate.perf.operations import Executor
from mooring.simulate.perf.suite import Operation, Run
from mooring.simulate.perf.workspace import WorkloadError

LIMIT = 1800.0  # seconds for a workload


class Outcome(msgspec.Struct, rename="camel"):
    """What a workload came to."""

    name: str
    seconds: float
    pods: int
    scheduled: int
    nodes: int
    attempts: int
    items: list[DataItem] = []
    problems: list[str] = []
    progress: list[Progress] = []

    @property
    def passed(self) -> bool:
        return not self.problems


Shown = Callable[[int, Operation], None]


def run_workload(
    run: Run,
    *,
    virtual: bool = False,
    kubeconfig: str = "",
    config: str = "",
    seed: int = 0,
    shown: Shown = lambda index, operation: None,
    inspect: Callable[[list[Pod]], Any] | None = None,
) -> Outcome:
    """Run a workload to its end. `config` replaces the case's scheduler configuration; `inspect` gets the
    pods as they are at the end. Raises OSError and ConfigError."""
    loaded = _load(run, config)
    work = _work(run, loaded, kubeconfig, seed, shown, inspect)
    if virtual:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            return runner.run(work)
    return asyncio.run(work)


def _load(run: Run, config: str) -> LoadedConfig:
    path = config or (run.folder / run.scheduler_config if run.scheduler_config else "")
    loaded = load(path) if path else LoadedConfig(default_config())
    loaded.config.feature_gates = _settable(run.feature_gates) | loaded.config.feature_gates
    return loaded


def _settable(gates: Mapping[str, bool]) -> dict[str, bool]:
    """The gates of a workload that v1.36 lets one set: suites also have those of versions before."""
    return {
        name: value
        for name, value in gates.items()
        if (gate := known_gates().get(name)) is not None and (not gate.locked or value == gate.default)
    }


async def _work(
    run: Run,
    config: LoadedConfig,
    kubeconfig: str,
    seed: int,
    shown: Shown,
    inspect: Callable[[list[Pod]], Any] | None,
) -> Outcome:
    began = time.monotonic()
    registry = registry_with()
    registry.register_entry_points()
    bench = BenchCluster(config, registry, kubeconfig=kubeconfig, claims=run.uses_claims, seed=seed)
    await bench.start()
    try:
        executor = Executor(run, bench)
        problems: list[str] = []
        try:
            async with asyncio.timeout(LIMIT):
                await executor.execute(shown)
        except (WorkloadError, TimeoutError) as error:
            problems.append(str(error) or f"{run.name}: not finished after {LIMIT:.0f} s")
        pods = executor.pods()
        if inspect is not None:
            inspect(pods)
        outcome = Outcome(
            run.name,
            time.monotonic() - began,
            len(pods),
            sum(bool(pod.spec.node_name) for pod in pods),
            len(bench.scheduler.core.cluster.nodes),
            int(sum(bench.metrics.attempts.values.values())),
            executor.items,
            [*problems, *executor.problems],
            executor.progress,
        )
        if kubeconfig:
            await executor.clean_up()
    finally:
        await bench.stop()
    return outcome
