"""Run tests of an `e2e.test` binary, in shards with a sandbox cluster each."""

from __future__ import annotations

import json
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

BATCH = 8
"""Tests per process of e2e.test: it takes seconds to start, and reports at its end."""


_GATE = re.compile(r"\[FeatureGate:(\w+)\]")
_OFF = "[Feature:OffByDefault]"


class Batch(NamedTuple):
    """Tests that run one after another, on a cluster with feature gates that are off by default."""

    names: list[str]
    gates: tuple[str, ...] = ()


class Result(NamedTuple):
    """Outcome of one test. `message` is the first line of its failure."""

    name: str
    passed: bool
    seconds: float
    message: str = ""


def list_tests(binary: Path) -> list[str]:
    """Return the names of all tests."""
    listing = subprocess.run([binary, "--list-tests"], capture_output=True, text=True, check=True).stdout
    return sorted({line.split(": ", 1)[1].strip() for line in listing.splitlines() if ".go:" in line})


def run_tests(
    binary: Path, kubectl: str, names: list[str], shards: int, logs: Path, timeout: int
) -> Iterator[Result]:
    """Run tests and yield each result. Every shard has its own cluster, so serial tests need no special
    treatment."""
    batches: queue.SimpleQueue[Batch] = queue.SimpleQueue()
    for batch in make_batches(names):
        batches.put(batch)
    results: queue.SimpleQueue[Result | None] = queue.SimpleQueue()
    processes: set[subprocess.Popen[str]] = set()

    def work(shard: int) -> None:
        try:
            with cluster(logs / f"cluster-{shard}.log", processes) as kubeconfig:
                log = logs / f"e2e-{shard}.log"
                while True:
                    batch = batches.get_nowait()
                    with ExitStack() as stack:
                        own = kubeconfig
                        if batch.gates:
                            gated = cluster(logs / f"gates-{shard}.log", processes, batch.gates)
                            own = stack.enter_context(gated)
                        for result in run_batch(binary, kubectl, own, batch.names, log, timeout, processes):
                            results.put(result)
        except queue.Empty:
            pass
        finally:
            results.put(None)

    threads = [threading.Thread(target=work, args=(shard,), daemon=True) for shard in range(shards)]
    for thread in threads:
        thread.start()
    running = shards
    try:
        while running:
            result = results.get()
            if result is None:
                running -= 1
            else:
                yield result
    finally:
        for process in list(processes):
            process.terminate()


def make_batches(names: list[str]) -> Iterator[Batch]:
    """Yield tests by the gates that they need, at most `BATCH` together."""
    by_gates: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        gates = tuple(sorted(_GATE.findall(name))) if _OFF in name else ()
        by_gates.setdefault(gates, []).append(name)
    for gates, chosen in by_gates.items():
        for start in range(0, len(chosen), BATCH):
            yield Batch(chosen[start : start + BATCH], gates)


@contextmanager
def cluster(log: Path, processes: set[subprocess.Popen[str]], gates: tuple[str, ...] = ()) -> Iterator[Path]:
    """Start `mooring up` and yield the path of its kubeconfig."""
    with tempfile.TemporaryDirectory() as directory, log.open("w") as output:
        kubeconfig = Path(directory) / "kubeconfig"
        command = [sys.executable, "-m", "mooring.cli", "up", "--nodes", "3", "--kubeconfig", str(kubeconfig)]
        if gates:
            command.append(f"--feature-gates={','.join(f'{gate}=true' for gate in gates)}")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output, text=True)
        assert process.stdout is not None
        processes.add(process)
        copying: threading.Thread | None = None
        try:
            if not process.stdout.readline():
                raise RuntimeError(f"mooring up ended with exit code {process.wait()}, see {log}")
            copying = threading.Thread(target=shutil.copyfileobj, args=(process.stdout, output), daemon=True)
            copying.start()
            yield kubeconfig
        finally:
            process.terminate()
            process.wait()
            if copying is not None:  # until it has read the last line, the log stays open
                copying.join()
            processes.discard(process)


def run_batch(
    binary: Path,
    kubectl: str,
    kubeconfig: Path,
    names: list[str],
    log: Path,
    timeout: int,
    processes: set[subprocess.Popen[str]],
) -> Iterator[Result]:
    """Run tests one after another in one process of e2e.test."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        command = [
            str(binary),
            f"--kubeconfig={kubeconfig}",
            f"--kubectl-path={kubectl}",
            "--provider=skeleton",
            "--disable-log-dump",
            f"--ginkgo.focus=({'|'.join(re.escape(name) for name in names)})$",
            f"--ginkgo.timeout={timeout * len(names)}s",
            f"--ginkgo.json-report={report}",
            "--ginkgo.no-color",
        ]
        with log.open("a") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, text=True)
            processes.add(process)
            process.wait()
            processes.discard(process)
        suites = json.loads(report.read_bytes()) if report.exists() else []
    reports = {
        " ".join((*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"])): spec
        for suite in suites
        for spec in suite["SpecReports"] or ()
        if spec["LeafNodeType"] == "It"
    }
    for name in names:
        yield read_result(name, reports.get(name))


def read_result(name: str, spec: dict[str, object] | None) -> Result:
    """Return the outcome that a report of ginkgo has for a test."""
    if spec is None:
        return Result(name, False, 0.0, "not in the report")
    failure = spec.get("Failure")
    message = str(failure.get("Message", "")) if isinstance(failure, dict) else ""
    first = next((line for line in message.splitlines() if line.strip()), str(spec["State"]))
    seconds = float(str(spec["RunTime"])) / 1e9
    return Result(name, spec["State"] == "passed", seconds, first[:300])
