"""docs/plugins.md is true: its files are those of examples/plugins, its code runs, its output is what comes.

A block after `<!-- file: NAME -->` is that file, whole. Other Python blocks are executed. In console blocks
each `$ command` is run, and what it prints is compared; … stands for whatever follows on a line.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mooring.config import loads
from mooring.framework.cache_key import CacheKey
from mooring.framework.extension_points import EXTENSION_POINTS
from mooring.framework.plugin import Plugin
from mooring.framework.status import Code
from mooring.runtime.registry import ENTRY_POINT_GROUP
from mooring.testing import Cluster, check_plugin
from mooring.testing.answers import ALLOWED

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "plugins"
PAGE = (ROOT / "docs" / "plugins.md").read_text()

_BLOCK = re.compile(r"(?:<!-- file: (\S+) -->\n)?```(\w+)\n(.*?)```", re.DOTALL)


class Block(NamedTuple):
    file: str
    language: str
    text: str


BLOCKS = [Block(m[1] or "", m[2], m[3]) for m in _BLOCK.finditer(PAGE)]


def blocks(language: str, *, whole_files: bool = False) -> list[Block]:
    return [b for b in BLOCKS if b.language == language and bool(b.file) == whole_files]


def test_every_block_is_of_a_kind_that_is_run() -> None:
    assert PAGE.count("```") == 2 * len(BLOCKS)
    assert {block.language for block in BLOCKS if not block.file} == {
        "python",
        "console",
        "toml",
        "bash",
        "yaml",
    }


def test_the_roles_shown_are_valid(mooring_cluster: Cluster) -> None:
    [block] = blocks("yaml")
    lines = mooring_cluster.apply(block.text)
    assert [line.rpartition("/")[2] for line in lines] == ["mooring-records created"] * 2


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.file], ids=lambda block: block.file)
def test_the_files_shown_are_the_files(block: Block) -> None:
    assert block.text == (EXAMPLES / block.file).read_text()


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.text.splitlines()[0])
def test_fragments_run(block: Block) -> None:
    executed(block.text)


def executed(text: str) -> dict[str, Any]:
    """What the code defines; it is compiled as a file of its own would be."""
    namespace: dict[str, Any] = {"__name__": "fragment"}
    exec(compile(text, "fragment", "exec", dont_inherit=True), namespace)
    return namespace


def test_the_fragment_on_arguments_refuses_what_it_says() -> None:
    (block,) = [b for b in blocks("python") if "LimitArgs" in b.text]
    namespace = executed(block.text)
    assert [p.field for p in namespace["LimitArgs"](max_pods=0).problems()] == ["maxPods"]
    assert list(namespace["LimitArgs"]().problems()) == []


@pytest.mark.parametrize("block", blocks("console"), ids=lambda block: block.text.splitlines()[0])
def test_commands_print_what_is_shown(block: Block) -> None:
    for command, expected in commands(block.text):
        printed = run(command)
        pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
        assert re.fullmatch(pattern, printed.strip()), f"{command} printed\n{printed}"


def commands(text: str) -> list[tuple[str, str]]:
    """Each command of a console block, with the output shown for it."""
    parts = re.split(r"^\$ (.*)$", text, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def run(command: str | list[str]) -> str:
    """Run a command as a reader of the page would, in the examples' folder with Mooring installed."""
    paths = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    environment = {**os.environ, "PATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTEST_ADDOPTS"] = "-o addopts= -p no:cacheprovider"  # not this project's
    done = subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=EXAMPLES,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_configuration_enables_the_plugin() -> None:
    (block,) = blocks("yaml", whole_files=True)
    (profile,) = loads(block.text).config.profiles
    assert "GpuPack" in [plugin.name for plugin in profile.plugins.multi_point.enabled]


def test_the_entry_point_leads_to_the_plugin() -> None:
    (block,) = blocks("toml")
    (path,) = tomllib.loads(block.text)["project"]["entry-points"][ENTRY_POINT_GROUP].values()
    module, _, name = path.partition(":")
    assert f"class {name}(Plugin" in (EXAMPLES / f"{module}.py").read_text()


# ---- tables


def table(heading: str) -> list[list[str]]:
    """The rows of the table whose heading begins so, without the heading."""
    lines = iter(PAGE.splitlines())
    next(line for line in lines if line.startswith(heading))
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_the_table_of_extension_points_is_complete() -> None:
    rows = {re.sub(r"\(.*", "", row[0].strip("`")): row[1].strip("`") for row in table("| method |")}
    assert rows == {point.methods[0]: point.name for point in EXTENSION_POINTS.values()}


def test_the_table_of_extension_points_has_the_parameters() -> None:
    for signature, *_ in table("| method |"):
        match = re.fullmatch(r"`(\w+)\((.*)\)`", signature)
        assert match is not None
        code = getattr(Plugin, match[1]).__code__
        assert ["self", *match[2].split(", ")] == list(code.co_varnames[: code.co_argcount])


def test_the_table_of_extension_points_has_the_statuses() -> None:
    for signature, _, _, answers in table("| method |"):
        method = re.sub(r"[`(].*", "", signature.removeprefix("`"))
        named = {answer.strip() for answer in answers.split(",")} & {code.text for code in Code}
        assert named == {code.text for code in ALLOWED.get(method, ())}, method


def test_the_table_of_helpers() -> None:
    import mooring.framework as framework

    for helper, status, _ in table("| helper |"):
        name = re.sub(r"[`(].*", "", helper.removeprefix("`"))
        arguments: dict[str, tuple[Any, ...]] = {"skip": (), "wait": (5, "reason")}
        assert getattr(framework, name)(*arguments.get(name, ("reason",))).code.text == status


def test_the_table_of_cache_keys_is_complete() -> None:
    assert [row[0].strip("`") for row in table("| `cache_key` |")] == [
        f"CacheKey.{each.name}" for each in CacheKey
    ]


def test_the_table_of_the_handle_is_true() -> None:
    from mooring.framework import Handle

    start = PAGE.index("## The Handle")
    rows = re.findall(
        r"^\| (`.*?) \|", PAGE[start : PAGE.index("This plugin uses it for gang")], flags=re.MULTILINE
    )
    for cell in rows:
        for name in re.findall(r"`(\w+)", cell):
            assert hasattr(Handle, name), name
    listed = {name for cell in rows for name in re.findall(r"`(\w+)", cell)}
    public = {name for name in vars(Handle) if not name.startswith("_")}
    assert public == listed


def test_the_readme_shows_a_plugin_that_keeps_the_contract() -> None:
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert found is not None
    check_plugin(executed(found[1])["GpuPack"])
