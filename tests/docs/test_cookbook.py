"""docs/cookbook.md shows the files of examples/cookbook, and their tests pass."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.config import loads, resolve
from mooring.core.build import registry_with

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "cookbook"
PAGE = (ROOT / "docs" / "cookbook.md").read_text()
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


def test_the_page_shows_all_files() -> None:
    plugins = {file.name for file in EXAMPLES.glob("*.py") if not file.name.startswith("test_")}
    assert FILES.keys() == plugins
    assert len(plugins) == 11
    for name, text in FILES.items():
        assert text == (EXAMPLES / name).read_text()
        assert len(text.splitlines()) < 40


def test_its_configuration_is_valid() -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    registry = registry_with()
    registry.register_path(f"{EXAMPLES}/pack_gpus.py:PackGpus")
    [profile] = resolve(loads(text), registry)
    assert profile.weights["PackGpus"] == 10


def run_tests(*options: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_they_work() -> None:
    run_tests("-m", "not slow")


@pytest.mark.slow
def test_they_keep_the_contract() -> None:
    run_tests("-m", "slow")
