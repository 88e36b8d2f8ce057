"""`mooring completion` in a real bash, `mooring version`, `python -m mooring`, and mistyped commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring import __version__
from mooring.cli import main
from tests.cli.command import mooring

BASH = """
source <(mooring completion bash) || exit 1
COMP_WORDS=(mooring "$@")
COMP_CWORD=$#
compopt() { local IFS=" "; echo "compopt $*"; }
_mooring_completion mooring
printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(*words: str, cwd: Path | None = None) -> list[str]:
    """Return what a real bash offers for the last word of `mooring WORDS`."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH, "bash", *words],
        cwd=cwd,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split("\n")[:-1]


@pytest.mark.slow
def test_bash_completes_commands_options_values_and_files() -> None:
    assert complete("sch") == ["schedule", "scheduler"]
    assert complete("config", "") == ["check", "view"]
    assert complete("schedule", "--pl") == ["--plugin"]
    assert complete("schedule", "-o", "") == ["table", "json", "yaml"]
    assert complete("schedule", "--config", "sche") == ["compopt -o default", ""]  # bash's own, of files


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert f"_MOORING_COMPLETE={shell}_complete" in done.stdout


def test_version() -> None:
    assert mooring("version").stdout.startswith(f"Mooring {__version__} (Kubernetes v1.36, Python 3.")
    assert json.loads(mooring("version", "-o", "json").stdout)["mooring"] == __version__


def test_it_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mooring", "explan"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: python -m mooring ")
    assert done.stderr.endswith('Error: unknown command "explan"\nhint: did you mean "explain"?\n')


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["config", "chek"], 'did you mean "check"?'),
        (["plugin", "nw"], 'did you mean "new"?'),
        (["frobnicate"], "the commands are completion, config, demo, "),
    ],
)
def test_a_mistyped_command(words: list[str], hint: str) -> None:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert f"hint: {hint}" in done.stderr
