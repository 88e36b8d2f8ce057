"""`mooring up`, as a person runs it: in a process of its own, with kubectl beside it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
import yaml

from mooring.cli.kubeconfig_files import Merged
from mooring.sandbox.apiserver.http.kubeconfig import write_kubeconfig

MOORING = str(Path(sys.executable).parent / "mooring")
PATIENCE = 60.0
WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: nginx, resources: {requests: {cpu: 100m}}}]
"""
PLUGIN = """
from mooring.framework import Plugin

class Favourite(Plugin):
    "Prefers one node."

    name = "Favourite"

    def score(self, state, pod, node):
        return 100 if node.name == "node-1" else 0
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Favourite, weight: 1000}]}}
"""

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


class Up:
    """A running `mooring up`, and what it has printed so far."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def text(self) -> str:
        return self._log.read_text()

    def wait_for(self, pattern: str, times: int = 1) -> None:
        self.wait(lambda: len(re.findall(pattern, self.text, re.MULTILINE)) >= times, pattern)

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            ended = self.process.poll() is not None
            assert not ended, f"it ended:\n{self.text}"
            assert time.monotonic() < deadline, f"waited for {what}:\n{self.text}"
            time.sleep(0.05)

    def kubectl(self, *args: str, check: bool = True) -> str:
        return self.run("kubectl", *args, check=check)

    def run(self, *command: str, check: bool = True) -> str:
        """A command of somebody who has taken over the line to export."""
        found = re.search(r"^export KUBECONFIG=(.*)$", self.text, re.MULTILINE)
        assert found
        environment = {**os.environ, "KUBECONFIG": found[1]}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)


@contextmanager
def running(place: Path, *args: str) -> Iterator[Up]:
    log = place / "up.log"
    with log.open("w") as out:
        up = Up(begin(place, out, *args), log)
        try:
            up.wait_for(r"^export KUBECONFIG=")
            yield up
        finally:
            if up.process.poll() is None:
                up.process.kill()
                up.process.wait()


def begin(place: Path, out: IO[str], *args: str) -> subprocess.Popen[str]:
    command = [MOORING, "up", *args]
    return subprocess.Popen(command, cwd=place, stdout=out, stderr=subprocess.STDOUT, text=True)


def test_a_workload_runs_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(WEB)
    with running(tmp_path, "--nodes", "5", "-f", "web.yaml", "--kubeconfig", "kubeconfig") as up:
        up.wait_for(r"deployment.apps/web created")
        up.wait_for(r"default/web-\S+ -> node-\d: ", 4)
        up.wait_for(r"5 of 5 nodes ready; pods: 0 pending, 4 running")
        assert (tmp_path / "kubeconfig").stat().st_mode & 0o777 == 0o600
        assert up.end() == 0
    assert "Traceback" not in up.text


@needs_kubectl
def test_kubectl_finds_what_it_would_find_anywhere(tmp_path: Path) -> None:
    with running(tmp_path, "--nodes", "3") as up:
        assert up.kubectl("get", "nodes").count(" Ready ") == 3
        up.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3")
        assert "successfully rolled out" in up.kubectl("rollout", "status", "deployment/web")
        nodes = up.kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}")
        assert sorted(nodes.split()) == ["node-1", "node-2", "node-3"]
        described = up.kubectl("describe", "pods")
        assert "Successfully assigned default/web" in described
        up.kubectl("delete", "deployment", "web", "--cascade=foreground")
        up.wait(lambda: up.kubectl("get", "pods") == "", "the pods to go")
        assert up.end() == 0


def test_saving_plugin_and_configuration_takes_them_into_use(tmp_path: Path) -> None:
    (tmp_path / "favourite.py").write_text(PLUGIN)
    (tmp_path / "config.yaml").write_text(CONFIG)
    pod = WEB.replace("replicas: 4", "replicas: 1")
    (tmp_path / "web.yaml").write_text(pod)
    args = ("--config", "config.yaml", "--plugin", "favourite:Favourite", "--reload", "-f", "web.yaml")
    with running(tmp_path, *args) as up:
        up.wait_for(r"default/web-\S+ -> node-1: ")
        (tmp_path / "favourite.py").write_text(PLUGIN + "\nthis is no Python\n")
        up.wait_for(r"favourite.py: reload failed; keeping the previous version: .*SyntaxError")
        (tmp_path / "config.yaml").write_text(CONFIG.replace("weight: 1000", "weight: many"))
        up.wait_for(r"config.yaml.*: reload failed; keeping the previous version: ")
        (tmp_path / "config.yaml").write_text(CONFIG.replace("weight: 1000", "weight: 2000"))
        (tmp_path / "favourite.py").write_text(PLUGIN.replace("node-1", "node-3"))
        up.wait_for(r"(favourite.py|config.yaml).*: reloaded")
        first = re.findall(r"default/(web-\S+) -> node-1: ", up.text)[0]
        assert "Attempts" in up.run(MOORING, "explain", first)  # a reload keeps the decisions
        if shutil.which("kubectl"):
            up.wait(
                lambda: "favourite.py: reloaded" in up.text or not up.kubectl("version", check=False), "it"
            )
            up.kubectl("scale", "deployment", "web", "--replicas=2")
            up.wait_for(r"default/web-\S+ -> node-3: ")
        (tmp_path / "favourite.py").write_text(
            'import time\nprint("importing", flush=True)\ntime.sleep(600)\n'
        )
        up.wait_for("importing")
        assert up.end() == 0  # although the import does not end


def test_a_plugin_without_a_configuration_runs_at_all_its_points(tmp_path: Path) -> None:
    broken = PLUGIN.replace('return 100 if node.name == "node-1" else 0', "return 1 / 0")
    (tmp_path / "favourite.py").write_text(broken)
    (tmp_path / "web.yaml").write_text(WEB)
    (tmp_path / "config.yaml").write_text(CONFIG.partition("profiles:")[0])
    with running(tmp_path, "--plugin", "favourite:Favourite", "-f", "web.yaml") as up:
        up.wait_for(
            r'web-\S+ -> error: running Score plugins: plugin "Favourite" failed with: ZeroDivisionError'
        )
        pod = re.findall(r"web-\S+(?= -> error)", up.text)[0]
        told = up.run(MOORING, "explain", pod)  # the scheduler itself is asked, which has the plugin
        assert 'error: running Score plugins: plugin "Favourite" failed' in told.partition("Attempts")[2]
        assert "past attempts are unknown" in up.run(
            MOORING, "explain", pod, "--config", str(tmp_path / "config.yaml")
        )
        assert up.end() == 0


@needs_kubectl
@pytest.mark.slow
def test_what_was_begun_goes_on_after_a_restart(tmp_path: Path) -> None:
    """Killed in the middle of a rollout, it takes it up again, with the same kubeconfig."""
    (tmp_path / "web.yaml").write_text(WEB.replace("replicas: 4", "replicas: 300"))
    with running(tmp_path, "--data-dir", "data", "-f", "web.yaml") as up:
        up.wait_for(r"default/web-\S+ -> node-\d: ", 20)
        up.process.kill()
        up.process.wait()
    with running(tmp_path, "--data-dir", "data") as up:
        up.wait_for(r"3 of 3 nodes ready; pods: 0 pending, 300 running")
        assert "300/300" in up.kubectl("get", "deployment", "web")
        assert up.end() == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--nodes", "3", "--nodes-file", "nodes.yaml"], "mutually exclusive"),
        (["--nodes-file", "missing.yaml"], "missing.yaml: No such file"),
        (["--config", "missing.yaml"], "missing.yaml: No such file"),
        (["--plugin", "nowhere:Nothing"], 'no module named "nowhere"'),
        (["-f", "bad.yaml"], 'bad.yaml: no kind "Gadget" is served in v1'),
        (["--kubeconfig", "other.yaml"], "other.yaml: not overwritten, because it contains other clusters"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_left_behind(
    tmp_path: Path, args: list[str], words: str
) -> None:
    (tmp_path / "bad.yaml").write_text("{apiVersion: v1, kind: Gadget, metadata: {name: g}}")
    (tmp_path / "other.yaml").write_text("clusters: [{name: production}]")
    done = subprocess.run(
        [MOORING, "up", *args], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "other.yaml").read_text() == "clusters: [{name: production}]"


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [MOORING, "up", "--port", str(port)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 2
    assert f"--port {port}: in use by another process" in done.stderr


def test_a_command_runs_in_the_cluster_and_passes_its_exit_code_on(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, "
        "spec: {nodeSelektor: {a: b}, containers: [{name: c, image: x}]}}"
    )
    command = "test -s $KUBECONFIG && echo ready; exit 7"
    done = subprocess.run(
        [MOORING, "up", "--run", command, "-f", "pod.yaml", "--kubeconfig", "kubeconfig"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, "ready\n")
    assert "warning: pod.yaml: pod 'p': unknown field \"spec.nodeSelektor\"" in done.stderr
    assert not (tmp_path / "kubeconfig").exists()


@pytest.mark.slow
def test_a_detached_cluster_keeps_its_kubeconfig_and_is_stopped_by_down(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}

    def mooring(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [MOORING, *args],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    begun = mooring("up", "--detach", "--kubeconfig", "kubeconfig")
    try:
        assert (begun.returncode, begun.stdout) == (0, f"export KUBECONFIG={tmp_path / 'kubeconfig'}\n")
        other = mooring("up", "--kubeconfig", "kubeconfig")
        assert other.returncode == 2
        assert "not overwritten, because its cluster is running" in other.stderr
    finally:
        ended = mooring("down")
    assert (ended.returncode, ended.stdout) == (0, f"stopped {tmp_path / 'kubeconfig'}\n")
    assert not (tmp_path / "kubeconfig").exists()
    assert mooring("down").returncode == 1


def test_entries_in_the_default_kubeconfig_are_taken_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "prod", "cluster": {"server": "https://prod"}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "me"}}],
        "current-context": "prod",
    }
    default, own = tmp_path / "config", tmp_path / "own"
    default.write_text(yaml.safe_dump(theirs))
    write_kubeconfig(own, "https://127.0.0.1:1", "secret", b"")
    monkeypatch.setenv("KUBECONFIG", str(default))
    merged = Merged(own)
    tree = yaml.safe_load(default.read_text())
    assert (tree["current-context"], [each["name"] for each in tree["clusters"]]) == (
        "mooring",
        ["prod", "mooring"],
    )
    assert default.stat().st_mode & 0o777 == 0o600
    merged.remove()
    assert yaml.safe_load(default.read_text()) == theirs
