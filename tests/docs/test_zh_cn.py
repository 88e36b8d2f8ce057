"""The pages in Chinese: their files, code, commands and links are those of the project."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from mooring.cli import main
from tests.docs.test_examples import executed, run

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "zh-CN").rglob("*.md"))
BLOCK = re.compile(r"(?:<!-- file: (\S+) -->\n)?```(\w*)\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_code_commands_and_links(page: Path) -> None:
    text = page.read_text()
    for file, language, content in BLOCK.findall(text):
        if file:
            assert content == (ROOT / "examples" / "plugins" / file).read_text()
        elif language == "python":
            executed(content)
    for command in re.findall(r"^(?:\$ )?mooring ([a-z]+)", text, flags=re.MULTILINE):
        assert main.get_command(click.Context(main), command), command
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target


def test_the_test_on_the_cluster_page_passes(tmp_path: Path) -> None:
    [test] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/zh-CN/cluster.md").read_text(), re.DOTALL)
    (tmp_path / "test_page.py").write_text(test)
    assert "1 passed" in run(f"python -m pytest -q {tmp_path}/test_page.py")
