"""Running a plan: every policy with every seed, in this process or in several."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import msgspec

from mooring import __version__
from mooring.core.decision import Recorder
from mooring.simulate.autoscaling import Autoscaler
from mooring.simulate.capture.pacing import RecordedPace
from mooring.simulate.capture.replaying import Replay
from mooring.simulate.cluster_depth import ClusterRun
from mooring.simulate.engine import START, Clock, CoreRun
from mooring.simulate.gang_metrics import gang_metrics, write_gangs
from mooring.simulate.invariants import check_run
from mooring.simulate.metrics import scheduling_rates, summarize
from mooring.simulate.plan import Plan
from mooring.simulate.policies import Policy
from mooring.simulate.probes import Sampler
from mooring.simulate.scenario_events import plan_events
from mooring.simulate.tables import Tables, collect, read_tables, write_tables

Progress = Callable[[CoreRun], None]
RUN, TIMING = "run.json", "timing.json"


class RunRecord(msgspec.Struct, rename="camel"):
    """What run.json holds."""

    scenario: str
    policy: str
    seed: int
    digest: str
    version: str
    virtual_seconds: float
    attempts: int
    metrics: dict[str, float]


class Job(msgspec.Struct):
    """One run to make: where its tables go."""

    policy: str
    seed: int
    folder: str


def run_once(plan: Plan, policy: Policy, seed: int, progress: Progress | None = None) -> Tables:
    """One run in this process. Raises ValueError, ConfigError and InvariantError."""
    if plan.depth != "core":
        return _run_cluster(plan, policy, seed)
    run = prepare_core_run(plan, policy, seed)
    sampler = Sampler([make() for make in plan.probes])
    if plan.probes:
        run.listeners.append(sampler)
    run.run(progress)
    check_run(run)
    return collect(run, policy.name, seed, sampler.columns)


def prepare_core_run(plan: Plan, policy: Policy, seed: int, log: Recorder | None = None) -> CoreRun:
    """A run at depth `core`, ready to start. `log` keeps its decisions."""
    clock = Clock()
    scheduler = policy.scheduler(clock, seed, log)
    objects, arrivals = plan.inputs(seed)
    run = CoreRun(
        scheduler,
        clock,
        objects,
        arrivals,
        until=plan.until,
        retry=plan.retry,
        attempt_cost=plan.attempt_cost,
        replaces=not any(isinstance(source, Replay) for source in plan.objects),
    )
    if policy.ties == "recorded":
        RecordedPace(run)
    plan_events(run, list(plan.events), seed)
    if plan.autoscaler is not None:
        autoscaler = Autoscaler(plan.autoscaler, lambda: policy.scheduler(lambda: START, seed), seed)
        run.listeners.append(autoscaler)
        autoscaler.begin(run)
    return run


def _run_cluster(plan: Plan, policy: Policy, seed: int) -> Tables:
    objects, arrivals = plan.inputs(seed)
    run = ClusterRun(
        policy,
        seed,
        objects,
        arrivals,
        manifests=plan.manifests,
        until=plan.until,
        wall_clock=plan.depth == "perf",
        kubeconfig=plan.kubeconfig,
    )
    plan_events(run, list(plan.events), seed)
    run.run()
    check_run(run)
    return collect(run, policy.name, seed, {})


def run_to_folder(
    plan: Plan, policy: Policy, seed: int, folder: Path, progress: Progress | None = None
) -> RunRecord:
    """One run, with its tables on disk; nothing is left half-written."""
    began, used = time.time(), time.process_time()
    tables = run_once(plan, policy, seed, progress)
    record = RunRecord(
        plan.name,
        policy.name,
        seed,
        plan.digest,
        __version__,
        tables.end,
        tables.attempts,
        summarize(tables, plan.load_axis, plan.prices) | gang_metrics(tables) | _rates(plan, tables),
    )
    timing = {"seconds": time.time() - began, "cpuSeconds": time.process_time() - used}
    unfinished = folder.with_name(folder.name + ".unfinished")
    unfinished.mkdir(parents=True, exist_ok=True)
    try:
        write_tables(tables, unfinished)
        write_gangs(tables, unfinished)
        (unfinished / RUN).write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
        (unfinished / TIMING).write_bytes(msgspec.json.encode(timing))
        if folder.exists():
            _remove(folder)
        os.replace(unfinished, folder)
    except OSError as error:
        _remove(unfinished)
        raise OSError(error.errno, error.strerror, str(folder)) from None
    return record


def _rates(plan: Plan, tables: Tables) -> dict[str, float]:
    return scheduling_rates(tables) if plan.depth == "perf" else {}


def _remove(folder: Path) -> None:
    """Remove the files of an earlier run."""
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def finished(folder: Path, digest: str) -> RunRecord | None:
    """The record of a run that has been made already, of the same scenario and program."""
    try:
        record = msgspec.json.decode((folder / RUN).read_bytes(), type=RunRecord)
    except (OSError, msgspec.DecodeError):
        return None
    return record if record.digest == digest else None


def folder_of(root: Path, policy: str, seed: int) -> Path:
    return root / policy / f"seed-{seed}"


def run_plan(
    plan: Plan,
    root: Path,
    *,
    workers: int = 1,
    progress: Callable[[str, int], Progress] | None = None,
    done: Callable[[RunRecord, bool], None] | None = None,
) -> list[RunRecord]:
    """Make every run that is missing. `done` is called with each, and with whether it was there already."""
    records: dict[tuple[str, int], RunRecord] = {}
    todo: list[tuple[Policy, int]] = []
    for policy in plan.policies:
        for seed in plan.seeds:
            finished_run = finished(folder_of(root, policy.name, seed), plan.digest)
            if finished_run is None or plan.depth == "perf":  # times differ from run to run
                todo.append((policy, seed))
                continue
            records[policy.name, seed] = finished_run
            if done is not None:
                done(finished_run, True)
    for record in _make(plan, root, todo, workers, progress):
        records[record.policy, record.seed] = record
        if done is not None:
            done(record, False)
    return [records[policy.name, seed] for policy in plan.policies for seed in plan.seeds]


def _make(
    plan: Plan,
    root: Path,
    todo: Sequence[tuple[Policy, int]],
    workers: int,
    progress: Callable[[str, int], Progress] | None,
) -> Iterator[RunRecord]:
    if workers <= 1 or len(todo) <= 1 or plan.depth == "perf":  # one at a time, for the sake of the figures
        for policy, seed in todo:
            show = None if progress is None else progress(policy.name, seed)
            yield run_to_folder(plan, policy, seed, folder_of(root, policy.name, seed), show)
        return
    _SHARED["plan"] = plan
    context = multiprocessing.get_context("fork")  # the plan is there already: nothing has to be sent
    with ProcessPoolExecutor(min(workers, len(todo)), mp_context=context) as pool:
        jobs = [
            pool.submit(_in_worker, Job(policy.name, seed, str(folder_of(root, policy.name, seed))))
            for policy, seed in todo
        ]
        for job in as_completed(jobs):
            yield job.result()


_SHARED: dict[str, Any] = {}


def _in_worker(job: Job) -> RunRecord:
    plan: Plan = _SHARED["plan"]
    policy = next(each for each in plan.policies if each.name == job.policy)
    return run_to_folder(plan, policy, job.seed, Path(job.folder))


def read_record(folder: Path) -> RunRecord:
    """The record of a run, without its tables. Raises OSError and ValueError."""
    return msgspec.json.decode((folder / RUN).read_bytes(), type=RunRecord)


def read_run(folder: Path) -> tuple[RunRecord, Tables]:
    """A run from its directory. Raises OSError and ValueError."""
    record = read_record(folder)
    return record, read_tables(folder, record.policy, record.seed, record.virtual_seconds, record.attempts)


def runs_in(root: Path) -> list[Path]:
    """The directories of runs below one, in order."""
    if (root / RUN).exists():
        return [root]
    folders = [path.parent for path in root.glob(f"*/*/{RUN}")] + [
        path.parent for path in root.glob(f"*/{RUN}")
    ]
    return sorted(folders, key=lambda path: (path.parent.name, _seed(path)))


def _seed(path: Path) -> tuple[int, str]:
    text = path.name.removeprefix("seed-")
    return (int(text), "") if text.isdigit() else (0, path.name)
