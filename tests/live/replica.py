"""`mooring scheduler` as a process of its own, as it runs in a cluster."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

T = TypeVar("T")

PATIENCE = 60.0
SYNCED = "caches are synced"
LEADS = "successfully acquired lease"


def wait_for(look: Callable[[], T], what: str, patience: float = PATIENCE, every: float = 0.05) -> T:
    """What `look` gives, once that is something."""
    deadline = time.monotonic() + patience
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited for {patience:g} s in vain: {what}; last seen: {found!r}")
        time.sleep(every)


def configuration(kubeconfig: Path, *names: str, **more: Any) -> dict[str, Any]:
    """A KubeSchedulerConfiguration for a scheduler of these names, which does not ask who leads."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": name} for name in names],
        **more,
    }


class Replica:
    """One process. What it said is shown where a test fails."""

    def __init__(self, folder: Path, config: dict[str, Any], *flags: str) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=folder, prefix="replica-"))
        file = self.folder / "scheduler.yaml"
        file.write_text(yaml.safe_dump(config))
        command = [sys.executable, "-m", "mooring.cli", "scheduler", f"--config={file}", "--v=2"]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--secure-port=0", *flags], stdout=log, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Replica:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        print(f"---- {self.folder.name}\n{self.log}")

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def lines(self, *parts: str) -> list[str]:
        """The lines of its log that contain all these."""
        return [line for line in self.log.splitlines() if all(part in line for part in parts)]

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def says(self, *parts: str) -> str:
        """Wait until it says something; the first such line."""

        def look() -> list[str]:
            found = self.lines(*parts)
            assert found or self.running, f"ended with {self.process.returncode}:\n{self.log}"
            return found

        return wait_for(look, f"{self.folder.name} says {' … '.join(parts)}")[0]

    def ready(self) -> Replica:
        self.says(SYNCED)
        return self

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """Meanwhile it does nothing."""
        self.process.send_signal(signal.SIGSTOP)
        yield
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """As a crash does it."""
        if self.running:
            self.process.kill()
            self.process.wait()
