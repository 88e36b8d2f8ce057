"""examples/extender: its files agree with each other and with docs/extenders.md, and its story is true on an
embedded cluster."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.config import load
from mooring.extender.serving.handlers import handlers_of
from mooring.extender.serving.loading import load_handlers
from tests.examples.extender_story import EXAMPLE, LABEL, Story
from tests.extender.serving_kit import extender, node, pod
from tests.live.replica import wait_for
from tests.sandbox.apiserver.kubectl import Kubectl, needs_kubectl

DOCS = Path(__file__).parents[2] / "docs" / "extenders.md"
_BLOCK = re.compile(r"(?:<!-- file: (\S+) -->\n)?```(\w+)\n(.*?)```", re.DOTALL)


# ---- the page


def blocks() -> list[tuple[str, str, str]]:
    page = DOCS.read_text()
    return [
        (found[1] or "", found[2], found[3]) for found in _BLOCK.finditer(page.partition("## Serving")[2])
    ]


def test_the_files_shown_are_the_files() -> None:
    shown = {name: text for name, _, text in blocks() if name}
    assert shown.keys() == {"priority.py", "scheduler.yaml"}
    for name, text in shown.items():
        assert text == (EXAMPLE / name).read_text()


def test_the_code_shown_serves() -> None:
    (text,) = [text for name, language, text in blocks() if language == "python" and not name]
    namespace: dict[str, Any] = {"__name__": "fragment"}
    exec(compile(text, "fragment", "exec", dont_inherit=True), namespace)
    found = [handler for function in namespace.values() for handler in handlers_of(function)]
    assert [handler.path for handler in found] == ["/filter", "/newest", "/bind"]
    with extender(namespace["has_room"], namespace["newest"]) as it:
        busy, old, kept = node("busy", busy="true"), node("old", year="2021"), node("kept")
        kept["metadata"]["annotations"] = {"maintenance": "today"}
        result = it.filter(pod(), busy, old, kept)
        assert result["FailedNodes"] == {"busy": "node(s) were busy"}
        assert result["FailedAndUnresolvableNodes"] == {"kept": "node(s) were under maintenance"}
        assert it.post("/newest", {"Pod": pod(), "Nodes": {"items": [old, busy]}}).tree == [
            {"Host": "old", "Score": 1},
            {"Host": "busy", "Score": 0},
        ]


# ---- the files


def test_the_configuration_names_what_is_served() -> None:
    (configured,) = load(EXAMPLE / "scheduler.yaml").config.extenders
    served = {handler.path: handler.verb for handler in load_handlers(str(EXAMPLE / "priority.py"))}
    assert served == {"/filter": "filter", "/filter_onlyone": "filter", "/prioritize": "prioritize"}
    assert (configured.filter_verb, configured.prioritize_verb, configured.bind_verb) == (
        "filter",
        "prioritize",
        "bind",
    )
    assert configured.url_prefix == "http://localhost:8080"  # where an extender is by default


def test_the_manifest_has_these_files() -> None:
    found = {
        each["kind"]: each for each in yaml.safe_load_all((EXAMPLE / "deploy" / "manifest.yaml").read_text())
    }
    assert found["ConfigMap"]["data"] == {
        "i-scheduler-extender.yaml": (EXAMPLE / "scheduler.yaml").read_text(),
        "priority.py": (EXAMPLE / "priority.py").read_text(),
    }
    spec = found["Deployment"]["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
    (volume,) = spec["volumes"]
    assert volume["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
    assert [each["args"][0] for each in spec["containers"]] == ["scheduler", "extender"]
    test = yaml.safe_load((EXAMPLE / "deploy" / "deploy-test.yaml").read_text())
    name = test["spec"]["template"]["spec"]["schedulerName"]
    assert name == load(EXAMPLE / "scheduler.yaml").config.profiles[0].scheduler_name


# ---- what it answers


def test_only_labelled_nodes_pass_and_the_label_is_the_score() -> None:
    functions = {handler.function for handler in load_handlers(str(EXAMPLE / "priority.py"))}
    low, high, none = node("low", **{LABEL: "10"}), node("high", **{LABEL: "50"}), node("none")
    odd = node("odd", **{LABEL: "many"})
    with extender(*functions) as it:
        assert it.filter(pod(), low, none, high)["Nodes"]["items"] == [low, high]
        assert it.filter(pod(), low, none, high, path="/filter_onlyone")["Nodes"]["items"] == [high]
        for path in ("/filter", "/filter_onlyone"):
            said = "all node do not have label priority.lixueduan.com"
            assert it.filter(pod(), none, path=path)["Error"] == said
        assert it.prioritize(pod(), low, high, odd) == {"low": 10, "high": 50, "odd": 0}


# ---- the story


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """A cluster as the page brings it up."""
    path, log = tmp_path / "kubeconfig", tmp_path / "up.log"
    command = [sys.executable, "-m", "mooring.cli", "up", "--no-scheduler", f"--kubeconfig={path}"]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, f"--nodes-file={EXAMPLE / 'nodes.yaml'}"], stdout=file, stderr=file
        )
    try:
        wait_for(lambda: "KUBECONFIG" in log.read_text() or process.poll() is not None, "the cluster is up")
        assert process.poll() is None, log.read_text()
        yield path
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        print(f"---- mooring up\n{log.read_text()}")


@needs_kubectl
@pytest.mark.slow
def test_the_story_on_an_embedded_cluster(kubeconfig: Path, tmp_path: Path) -> None:
    kubectl = Kubectl(kubeconfig, tmp_path)
    applied = kubectl("apply", "-f", str(EXAMPLE / "deploy" / "manifest.yaml"))
    assert [line.rpartition(" ")[2] for line in applied.splitlines()] == ["created"] * 5
    Story(tmp_path, kubeconfig, kubectl).tell("mooring", cached=True)
