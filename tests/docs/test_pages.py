"""README.md, README.zh-CN.md and docs/cluster.md: their tests run, their commands and files exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mooring.cli import COMMANDS, main
from mooring.sandbox.kubelet.nodes_file import read_nodes
from mooring.testing import check_plugin
from tests.docs.test_examples import executed, run

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    "README.zh-CN.md",
    *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").glob("*.md"))),
]
PAGES += [str(p.relative_to(ROOT)) for p in sorted((ROOT / "examples").glob("*/*.md"))]
EXAMPLES = sorted(p.relative_to(ROOT) for p in (ROOT / "examples").iterdir() if any(p.glob("test_*.py")))


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def test_the_test_in_the_readme_passes(tmp_path: Path) -> None:
    plugin, test = blocks("README.md", "python")
    (tmp_path / "test_readme.py").write_text("import pytest\n" + plugin + test)
    assert "1 passed" in run(f"python -m pytest -q {tmp_path}/test_readme.py")


def test_the_readme_shows_what_schedule_prints() -> None:
    [block] = [each for each in blocks("README.md", "console") if each.startswith("$ mooring schedule ")]
    command, _, expected = block.removeprefix("$ ").partition("\n")
    pattern = re.escape(expected).replace("\\\n…\\\n", "\n(?:.*\n)*?").replace("…", ".*")
    printed = run(f"cd {ROOT} && {command}")
    assert re.fullmatch(pattern, printed), printed


def test_the_test_in_the_page_on_the_cluster_passes(tmp_path: Path) -> None:
    [test] = blocks("docs/cluster.md", "python")
    (tmp_path / "test_page.py").write_text(test)
    assert "1 passed" in run(f"python -m pytest -q {tmp_path}/test_page.py")


def test_the_architecture_lists_the_packages_in_their_import_order() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    packages = re.findall(r"^\| `([\w/]+)/` \|", page, flags=re.MULTILINE)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rooms, inside = (contract["layers"] for contract in contracts[:2])
    layers = [layer.removeprefix("mooring.").replace(".", "/") for layer in [*rooms, *inside]]
    assert packages == layers


def test_the_architecture_names_files_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    for path in re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", page):
        assert (ROOT / "mooring" / path).exists(), path


def test_the_plugin_in_chinese_keeps_the_contract() -> None:
    [plugin] = blocks("README.zh-CN.md", "python")
    check_plugin(executed(plugin)["Maintenance"])


def test_the_nodes_files_on_the_page_can_be_read() -> None:
    texts = blocks("docs/cluster.md", "yaml")
    names = [[node["metadata"]["name"] for node in read_nodes(text, "page")] for text in texts]
    assert names == [["web-1", "web-2", "web-3", "gpu"], ["gpu-1", "gpu-2"]]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", (ROOT / page).read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert ((ROOT / page).parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_exist(page: str) -> None:
    for line in re.findall(
        r"^(?:\$ )?(?:\.venv/bin/)?(mooring \S.*)$", (ROOT / page).read_text(), flags=re.MULTILINE
    ):
        words = line.partition("#")[0].split()
        assert words[1] in COMMANDS, line
        group = main.get_command(click.Context(main), words[1])
        inside = group.commands if isinstance(group, click.Group) else {}
        path = words[1:2]
        if len(words) > 2 and words[2] in inside:
            path = words[1:3]
        elif "run" in inside:  # the command of a group that is called without one
            path = [*path, "run"]
        shown = CliRunner().invoke(main, [*path, "--help"])
        assert shown.exit_code == 0, line
        for option in re.findall(r"(?<=\s)--[a-z-]+", line.partition("#")[0]):
            assert option in shown.output, line


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_the_examples_pass_their_own_tests(example: Path) -> None:
    found = run(f"cd {ROOT / example} && python -m pytest -q")
    assert " passed" in found
    assert "failed" not in found
