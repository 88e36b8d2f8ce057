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
            "KUBE_EDITOR": "sed -i s/before/after/",
        }

    def __call__(self, *arguments: str, stdin: str = "", code: int | None = 0) -> str:
        """What it prints, both streams together; `code` is the exit code that is expected."""
        found, page = self.run(*arguments, stdin=stdin)
        assert code is None or found == code, f"kubectl {' '.join(arguments)}: {page}"
        return page

    def run(self, *arguments: str, stdin: str = "") -> tuple[int, str]:
        """Its exit code, and what it prints, both streams together."""
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
        lines = done.stdout.splitlines()
        return done.returncode, "\n".join(one for one in lines if not one.startswith("WARNING: version"))

    @cached_property
    def version(self) -> str:
        """Which kubectl it is, such as "v1.32"."""
        found = json.loads(self("version", "--client", "-o", "json"))["clientVersion"]
        return f"v{found['major']}.{found['minor']}"

    def start(self, *arguments: str, errors: bool = False) -> subprocess.Popen[str]:
        """A kubectl that goes on, such as one that watches; whoever started it ends it."""
        return subprocess.Popen(
            [str(KUBECTL), *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if errors else None,
            text=True,
            bufsize=1,
        )
