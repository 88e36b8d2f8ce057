"""Sweeps: a scenario with many values, in processes of this machine or on a Ray cluster.

Every run is a pure function of its inputs. A worker gets them as bytes and returns its tables as bytes, which
the caller writes: no disk has to be shared, and results do not depend on where and when runs were made.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import msgspec

import mooring
from mooring.simulate.plan import Plan, compile_plan, mentioned_files
from mooring.simulate.running import RunRecord, finished, folder_of, run_to_folder
from mooring.simulate.scenario import load_scenario

MOST_POINTS = 10_000
RETRIES = 2  # of a run whose worker was lost
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
_UNSAFE = re.compile(r"[^\w.=+-]+")


class Point(msgspec.Struct):
    """One combination of values."""

    name: str
    changes: dict[str, Any]


class Bundle(msgspec.Struct):
    """The files of a scenario, by their paths below a common folder."""

    scenario: str
    files: dict[str, bytes]


class Task(msgspec.Struct):
    """One run to make."""

    point: Point
    policy: str
    seed: int
    digest: str


class Progress(msgspec.Struct):
    """What is known of a sweep: its runs in all, and those that are there."""

    total: int
    done: int = 0
    repeated: int = 0


def parse_values(text: str) -> tuple[str, list[Any]]:
    """`PATH=0..10` or `PATH=a,b,c`. Raises ValueError."""
    path, equals, values = text.partition("=")
    if not equals or not path or not values:
        raise ValueError(f"--set {text}: expected PATH=FIRST..LAST or PATH=VALUE,VALUE")
    span = _RANGE.fullmatch(values)
    if span is not None:
        first, last = int(span[1]), int(span[2])
        if not first <= last < first + MOST_POINTS:
            raise ValueError(f"--set {text}: expected FIRST..LAST with at most {MOST_POINTS} values")
        return path, list(range(first, last + 1))
    return path, [_value(each.strip()) for each in values.split(",")]


def _value(text: str) -> Any:
    try:
        return msgspec.yaml.decode(text)
    except (msgspec.DecodeError, ImportError):
        return text


def grid(
    values: Sequence[tuple[str, Sequence[Any]]], sample: int | None = None, seed: int = 0
) -> list[Point]:
    """Every combination, or a number of them at random. Raises ValueError."""
    count = 1
    for _, each in values:
        count *= len(each)
    if count > MOST_POINTS and sample is None:
        raise ValueError(f"{count} combinations, at most {MOST_POINTS}\n  hint: --random N takes some")
    combinations = list(itertools.islice(itertools.product(*(each for _, each in values)), MOST_POINTS * 100))
    if sample is not None and sample < len(combinations):
        combinations = random.Random(seed).sample(combinations, sample)
    points = []
    for combination in combinations:
        changes = {path: value for (path, _), value in zip(values, combination, strict=True)}
        name = "+".join(f"{path.rpartition('.')[2]}={value}" for path, value in changes.items())
        points.append(Point(_UNSAFE.sub("_", name) or "scenario", changes))
    if len({point.name for point in points}) < len(points):  # the last parts of paths are not enough
        for index, point in enumerate(points):
            point.name = f"{index:04d}+{point.name}"
    return points


def bundle(file: str) -> Bundle:
    """The scenario with every file that it mentions. Raises OSError and ConfigError."""
    scenario = load_scenario(file)
    paths = [Path(file).resolve(), *(file.resolve() for _, file in mentioned_files(scenario))]
    base = Path(os.path.commonpath([str(path.parent) for path in paths]))
    files = {str(path.relative_to(base)): path.read_bytes() for path in paths}
    return Bundle(str(paths[0].relative_to(base)), files)


class Sweep:
    """The runs of all points; those that are there already are not made again."""

    def __init__(self, file: str, points: Sequence[Point], root: Path) -> None:
        self.root, self.points = root, points
        self.bundle = bundle(file)
        self.plans: dict[str, Plan] = {
            point.name: compile_plan(load_scenario(file, point.changes)) for point in points
        }
        self.records: dict[tuple[str, str, int], RunRecord] = {}
        self.todo: list[Task] = []
        for point in points:
            plan = self.plans[point.name]
            for policy in plan.policies:
                for seed in plan.seeds:
                    finished_run = finished(self._folder(point.name, policy.name, seed), plan.digest)
                    if finished_run is None:
                        self.todo.append(Task(point, policy.name, seed, plan.digest))
                    else:
                        self.records[point.name, policy.name, seed] = finished_run
        self.progress = Progress(len(self.todo) + len(self.records), len(self.records), len(self.records))

    def _folder(self, point: str, policy: str, seed: int) -> Path:
        return folder_of(self.root / point, policy, seed)

    def run(self, workers: int = 1, ray_address: str | None = None) -> Iterator[Task]:
        """Make the missing runs; yields each once its tables are on disk. Raises what a run raises."""
        if ray_address is not None:
            results = _on_ray(self.bundle, self.todo, ray_address)
        else:
            results = _in_processes(self.bundle, self.todo, workers)
        for task, files in results:
            self._keep(task, files)
            yield task

    def _keep(self, task: Task, files: Mapping[str, bytes]) -> None:
        """Write the tables of a run; nothing is left half-written."""
        folder = self._folder(task.point.name, task.policy, task.seed)
        unfinished = folder.with_name(folder.name + ".unfinished")
        unfinished.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (unfinished / name).write_bytes(content)
        if folder.exists():
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
        os.replace(unfinished, folder)
        record = finished(folder, task.digest)
        if record is None:
            raise ValueError(
                f"{folder}: the worker runs another version of mooring\n  hint: install the same on all nodes"
            )
        self.records[task.point.name, task.policy, task.seed] = record
        self.progress.done += 1


def run_task(inputs: Bundle, task: Task) -> dict[str, bytes]:
    """Make a run in this process, from its inputs alone; the files of its tables."""
    with tempfile.TemporaryDirectory(prefix="mooring-sweep-") as folder:
        root = Path(folder) / "in"
        for name, content in inputs.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
        plan = compile_plan(load_scenario(root / inputs.scenario, task.point.changes))
        policy = next(each for each in plan.policies if each.name == task.policy)
        out = Path(folder) / "out"
        run_to_folder(plan, policy, task.seed, out)
        return {file.name: file.read_bytes() for file in sorted(out.iterdir())}


def _in_processes(
    inputs: Bundle, tasks: Sequence[Task], workers: int
) -> Iterator[tuple[Task, dict[str, bytes]]]:
    if workers <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield task, run_task(inputs, task)
        return
    context = multiprocessing.get_context("fork")  # nothing has to be imported again
    with ProcessPoolExecutor(min(workers, len(tasks)), mp_context=context) as pool:
        futures: dict[Future[dict[str, bytes]], Task] = {}
        try:
            for task in tasks:
                futures[pool.submit(run_task, inputs, task)] = task
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _on_ray(inputs: Bundle, tasks: Sequence[Task], address: str) -> Iterator[tuple[Task, dict[str, bytes]]]:
    """One Ray task per run, with this program's code. Raises ImportError without Ray."""
    import ray  # type: ignore[import-not-found,import-untyped,unused-ignore]

    package = str(Path(mooring.__file__).parent)
    ray.init(
        address=address, runtime_env={"py_modules": [package]}, log_to_driver=False, logging_level="WARNING"
    )
    try:
        shared = ray.put(msgspec.msgpack.encode(inputs))
        remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_ray_task)
        waiting = {remote.remote(shared, msgspec.msgpack.encode(task)): task for task in tasks}
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            for reference in ready:
                yield waiting.pop(reference), ray.get(reference)
    finally:
        ray.shutdown()


def _ray_task(inputs: bytes, task: bytes) -> dict[str, bytes]:
    return run_task(msgspec.msgpack.decode(inputs, type=Bundle), msgspec.msgpack.decode(task, type=Task))
