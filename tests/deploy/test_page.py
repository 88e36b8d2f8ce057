"""docs/deploy.md is true: its files render, its commands exist, its table of rights is that of the roles."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from mooring.cli import main
from mooring.config import loads
from tests.deploy.manifests import DEPLOY, ROOT, render
from tests.deploy.page import BLOCKS, PAGE, Block, commands, table
from tests.deploy.permissions import CLUSTER_WIDE, LEASE, NEW_LEASE, Permission


def test_every_block_was_found() -> None:
    assert PAGE.count("```") == 2 * len(BLOCKS)


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.file == "kustomization.yaml"])
def test_kustomizations(block: Block, tmp_path: Path) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    (scheduler,) = (b for b in BLOCKS if b.file == "scheduler.yaml")
    (tmp_path / "scheduler.yaml").write_text(scheduler.text)
    (tmp_path / "kustomization.yaml").write_text(block.text)
    manifests = render(tmp_path)
    wanted = yaml.safe_load(block.text)
    if "images" in wanted:
        assert manifests.container()["image"].startswith("registry.example.com/mooring:")
    if "configMapGenerator" in wanted:
        assert manifests.mounted("/etc/mooring") == {"scheduler.yaml": scheduler.text}
    if "patches" in wanted:
        assert "mooring-volume-binding" not in {
            binding["metadata"]["name"] for binding in manifests.of("ClusterRoleBinding")
        }


def test_the_configuration() -> None:
    (block,) = (b for b in BLOCKS if b.file == "scheduler.yaml")
    assert [p.scheduler_name for p in loads(block.text).config.profiles] == ["mooring", "mooring-packing"]


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "yaml"], ids=lambda b: b.text[:20])
def test_yaml(block: Block) -> None:
    assert isinstance(yaml.safe_load(block.text), dict)


@pytest.mark.parametrize("command", commands(runnable=False))
def test_commands_name_what_there_is(command: str) -> None:
    words = shlex.split(command)
    for word in words:
        if word.startswith("deploy/"):
            assert (ROOT / word).exists()
    if words[0] == "mooring":
        with main.make_context("mooring", words[1:], resilient_parsing=False) as context:
            assert main.get_command(context, words[1]) is not None


def test_the_table_of_rights() -> None:
    found = set()
    for what, verbs, _ in table("| what | verbs | why |"):
        for name in re.findall(r"`([^`]+)`", what):
            resource, _, group = name.partition(".")
            for verb in re.findall(r"\b(get|list|watch|create|update|patch|delete)\b", verbs):
                found.add(Permission(verb, group, resource))
    assert found == CLUSTER_WIDE | LEASE | NEW_LEASE


def test_messages_are_ones_that_are_said() -> None:
    """What is in backticks in the first column of the table of troubles, up to the first …"""
    source = "".join(path.read_text() for path in (ROOT / "mooring").rglob("*.py"))
    said = re.sub(r'"\n\s*f?"', "", source)  # strings that go on on the next line
    for seen, *_ in table("| what you see |"):
        for message in re.findall(r"`([^`]+)`", seen):
            beginning = message.partition("…")[0].strip(' ":')
            if " " in beginning and not beginning.startswith("0/"):
                assert beginning in said, message
