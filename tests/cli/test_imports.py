"""What commands import: those that need no sandbox cluster start without one."""

from __future__ import annotations

import subprocess
import sys

import pytest

SANDBOX = (
    "mooring.sandbox.apiserver",
    "mooring.sandbox.kubelet",
    "mooring.sandbox.network",
    "mooring.sandbox.programs",
)


@pytest.mark.parametrize("command", ["schedule", "explain", "pending"])
def test_a_command_without_a_cluster_imports_none(command: str) -> None:
    script = f"import sys, mooring.cli.{command}; print(*sys.modules)"
    names = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert [name for name in names.split() if name.startswith(SANDBOX)] == []
