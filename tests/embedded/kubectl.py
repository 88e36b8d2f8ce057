"""The real kubectl, for tests; those that need it are skipped where it is not installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cached_property
from pathlib import Path

import pytest

KUBECTL = shutil.which("kubectl")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")


class Kubectl:
    """Runs kubectl with a kubeconfig, and a home of its own for its cache."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        self._environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(home),
            "KUBECONFIG": str(kubeconfig),
            "TZ": "UTC",
        }

    def __call__(self, *arguments: str, stdin: str = "", code: int | None = 0) -> str:
        """What it prints, both streams together; `code` is the exit code that is expected."""
        done = subprocess.run(
            [str(KUBECTL), *arguments],
            input=stdin,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        assert code is None or done.returncode == code, f"kubectl {' '.join(arguments)}: {done.stdout}"
        return "\n".join(line for line in done.stdout.splitlines() if not line.startswith("WARNING: version"))

    @cached_property
    def version(self) -> str:
        """Which kubectl it is, such as "v1.32"."""
        found = json.loads(self("version", "--client", "-o", "json"))["clientVersion"]
        return f"v{found['major']}.{found['minor']}"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A kubectl that goes on, such as one that watches; whoever started it ends it."""
        return subprocess.Popen(
            [str(KUBECTL), *arguments], env=self._environment, stdout=subprocess.PIPE, text=True, bufsize=1
        )
