"""`mooring extender` on the command line: what it takes, what it refuses, and how it ends."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli import main
from tests.extender.serving_kit import args, node, pod

EXAMPLES = Path(__file__).parents[2] / "examples"
PRIORITY = str(EXAMPLES / "extender" / "priority.py")
SLOW = """
import asyncio
from mooring import extender

@extender.filter
async def slow(pod, nodes):
    print("asked", flush=True)
    await asyncio.sleep(0.5)
    return nodes
"""


@contextmanager
def command(*words: str, cwd: Path | None = None, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "mooring.cli", "extender", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def port_of(process: subprocess.Popen[str]) -> int:
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
    assert found, line
    return int(found[1])


def ask(port: int, path: str, body: object) -> dict[str, object]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer: dict[str, object] = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def test_a_file_of_handlers() -> None:
    with command(PRIORITY, "--port=0") as process:
        port = port_of(process)
        assert ask(port, "/filter", args(pod(), node("a")))["Error"] == (
            "all node do not have label priority.lixueduan.com"
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_plugin_from_the_current_folder_with_its_args() -> None:
    folder = EXAMPLES / "plugins"
    words = ("--plugin=gpu_pack:GpuPack", "--config=scheduler.yaml", "--port=0", "--logging-format=json")
    with command(*words, cwd=folder, PYTHONDONTWRITEBYTECODE="1") as process:
        port = port_of(process)
        gpu = node("gpu")
        gpu["status"]["allocatable"]["nvidia.com/gpu"] = "4"
        greedy = pod(containers=[{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "4"}}}])
        refused = ask(port, "/filter", args(greedy, gpu))["FailedNodes"]
        assert refused == {"gpu": "node(s) had too few free GPUs"}  # one is reserved, says scheduler.yaml


def test_it_ends_when_what_is_being_answered_is_answered(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    with command(str(tmp_path / "slow.py"), "--port=0") as process:
        port = port_of(process)
        found: list[object] = []
        client = threading.Thread(
            target=lambda: found.append(ask(port, "/filter", args(pod(), node("a")))["Error"])
        )
        client.start()
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGTERM)
        client.join(20)
        assert found == [""]
        assert process.wait(20) == 0


# ---- what makes no sense


def failing(*words: str) -> str:
    """What is said of a command line that ends with 2."""
    result = CliRunner().invoke(main, ["extender", *words])
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.output


def test_nothing_to_serve() -> None:
    assert "nothing to serve\nhint: pass a file with handlers, or --plugin MODULE:CLASS" in failing()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.py",), "nowhere.py: No such file"),
        (("json",), "json: no handlers found"),
        (("--plugin=nowhere:Plugin",), "--plugin nowhere:Plugin: no module named"),
        (("--plugin=json:JSONDecoder",), "is not a plugin"),
        ((PRIORITY, "--config=nowhere.yaml"), "nowhere.yaml: No such file or directory"),
        ((PRIORITY, "--kubeconfig=nowhere"), "nowhere"),
        ((PRIORITY, "--node-cache-capable"), "expected a cluster to watch; give --kubeconfig"),
        ((PRIORITY, "--bind-address=here"), '--bind-address: "here" is not an IP address'),
        ((PRIORITY, "--tls-cert-file=nowhere.pem"), "--tls-cert-file requires --tls-private-key-file"),
        ((PRIORITY, "--client-ca-file=ca.pem"), "--client-ca-file requires --tls-cert-file"),
        (
            (PRIORITY, "--tls-cert-file=no.pem", "--tls-private-key-file=no.pem"),
            "no.pem: certificate: cannot",
        ),
        ((PRIORITY, "--port=70000"), "70000 is not in the range"),
        ((PRIORITY, PRIORITY), "/filter: found handler labelled and handler labelled"),
    ],
)
def test_what_makes_no_sense_is_said(words: tuple[str, ...], said: str) -> None:
    assert said in failing(*words)


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = failing(PRIORITY, f"--port={port}")
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in said
    assert "choose others with --bind-address and --port" in said


def test_a_plugin_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unmakeable.py").write_text(
        "from mooring.framework import Plugin\n"
        "class Broken(Plugin):\n"
        "    name = 'Broken'\n"
        "    def __init__(self, args, handle):\n"
        "        raise ValueError('no luck')\n"
        "    def filter(self, state, pod, node): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert 'initializing plugin "Broken": no luck' in failing("--plugin=unmakeable:Broken")


def test_help_lists_it() -> None:
    assert (
        "Serve Python functions and plugins as an HTTP extender"
        in CliRunner().invoke(main, ["--help"]).output
    )
    text = CliRunner().invoke(main, ["extender", "--help"]).output
    assert "@extender.filter" in text
