"""The stories of the examples on an embedded cluster, by the commands of their pages."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_up import needs_kubectl, running
from tests.examples.stories import STORIES, Teller


@pytest.mark.slow
@needs_kubectl
@pytest.mark.parametrize("story", STORIES)
def test_the_story(tmp_path: Path, story: str) -> None:
    kubeconfig = tmp_path / "kubeconfig"

    def kubectl(*words: str) -> str:
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        done = subprocess.run(
            ["kubectl", *words], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with running(tmp_path, "--no-scheduler", "--nodes", "3", "--kubeconfig", str(kubeconfig)) as up:
        STORIES[story](Teller(tmp_path, kubeconfig, kubectl))
        assert up.end() == 0
