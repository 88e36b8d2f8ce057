"""Schedulers as a benchmark runs them: as processes, whose CPU time and memory the kernel reports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.live.control_plane import assets, free_port

TICKS = os.sysconf("SC_CLK_TCK")
QPS = 5000


def configuration(kubeconfig: Path, scheduler_name: str) -> dict[str, Any]:
    """Defaults in everything, but no lease to wait for, and no limit of the client's own."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": QPS, "burst": QPS},
        "profiles": [{"schedulerName": scheduler_name}],
    }


def _bind_only(kubeconfig: Path, folder: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.bind_only", f"--kubeconfig={kubeconfig}"]


def _mooring(kubeconfig: Path, folder: Path) -> list[str]:
    return [sys.executable, "-m", "mooring.cli", "scheduler", *_flags(kubeconfig, folder, "mooring")]


def _kube_scheduler_binary() -> Path | None:
    binaries = assets()
    binary = binaries / "kube-scheduler" if binaries else None
    return binary if binary and binary.is_file() else None


def _kube_scheduler(kubeconfig: Path, folder: Path) -> list[str]:
    binary = _kube_scheduler_binary()
    if binary is None:
        raise SystemExit("KUBEBUILDER_ASSETS has no kube-scheduler: put one there, or leave it out")
    return [str(binary), *_flags(kubeconfig, folder, "kube-scheduler")]


def _flags(kubeconfig: Path, folder: Path, scheduler_name: str) -> list[str]:
    """The same for both: that is what a drop-in is."""
    config = folder / f"{scheduler_name}.yaml"
    config.write_text(yaml.safe_dump(configuration(kubeconfig, scheduler_name)))
    return [
        f"--config={config}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}",
    ]


COMMANDS: dict[str, Callable[[Path, Path], list[str]]] = {
    "bind-only": _bind_only,
    "mooring": _mooring,
    "kube-scheduler": _kube_scheduler,
}


def at_hand() -> list[str]:
    """Which of COMMANDS can be run here."""
    return [name for name in COMMANDS if name != "kube-scheduler" or _kube_scheduler_binary()]


class SchedulerProcess:
    """A scheduler that runs."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def cpu_seconds(self) -> float:
        """What it used since it started, its start included."""
        text = Path(f"/proc/{self._process.pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def rss_mb(self) -> int:
        """The most it ever had in memory."""
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM")) // 1024

    def check(self) -> None:
        """End the benchmark if the scheduler ended."""
        if self._process.poll() is not None:
            end = self._log.read_text(errors="replace")[-2000:]
            raise SystemExit(f"the scheduler ended with {self._process.returncode}; its log ends:\n{end}")


@contextmanager
def running(scheduler: str, kubeconfig: Path, folder: Path, gates: str = "") -> Iterator[SchedulerProcess]:
    """Run one of COMMANDS, with feature gates, for the pods that name it; log and configuration go to the
    folder."""
    log = folder / f"{scheduler}.log"
    command = COMMANDS[scheduler](kubeconfig, folder)
    if gates and scheduler != "bind-only":
        command.append(f"--feature-gates={gates}")
    # An installed scheduler is not compiled anew at each start.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        yield SchedulerProcess(process, log)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
