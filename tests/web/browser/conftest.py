"""Chromium, and pages for it to open. Without Chromium or Playwright these tests are skipped."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.api.meta import KubeObject
from mooring.config import LoadedConfig, default_config
from mooring.core.build import registry_with
from mooring.core.scheduler import Scheduler
from mooring.web.page_server import PageServer
from mooring.web.source import FixedSource
from mooring.web.what_if import WhatIf

EXAMPLES = Path(__file__).parents[3] / "examples"
FLAGS = (
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")  # not the session: while Playwright runs, asyncio.run refuses to
def chromium() -> Iterator[Any]:
    """A headless browser."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs `pip install playwright`")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("needs Chromium: `apt install chromium`")
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=[*FLAGS, *as_root])
        yield browser
        browser.close()


class Tab:
    """One page with what went wrong in it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        self.bytes = 0
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._console)
        page.on("response", self._count)

    def _console(self, message: Any) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.problems.append(message.text)

    def _count(self, response: Any) -> None:
        self.bytes += int(response.headers.get("content-length", 0))

    def open(self, link: str) -> None:
        self.page.goto(link)
        self.page.wait_for_selector("html[data-cursor]")


@pytest.fixture
def new_tab(chromium: Any) -> Iterator[Callable[..., Tab]]:
    """Open a tab of its own profile; nothing may go wrong in it."""
    contexts: list[Any] = []
    tabs: list[Tab] = []

    def make(**options: Any) -> Tab:
        defaults = {"viewport": {"width": 1280, "height": 800}, "locale": "en-US", "reduced_motion": "reduce"}
        contexts.append(chromium.new_context(**{**defaults, **options}))
        contexts[-1].set_default_timeout(60_000)
        tabs.append(Tab(contexts[-1].new_page()))
        return tabs[-1]

    yield make
    for context in contexts:
        context.close()
    assert [problem for tab in tabs for problem in tab.problems] == []


@pytest.fixture
def tab(new_tab: Callable[..., Tab]) -> Tab:
    return new_tab()


class Up:
    """A running `mooring up`."""

    def __init__(self, link: str) -> None:
        self.link = link
        self.base, _, self._token = link.partition("/?token=")

    def get(self, path: str) -> Any:
        request = urllib.request.Request(f"{self.base}/v1/{path}")
        request.add_header("Authorization", f"Bearer {self._token}")
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)

    def scheduled(self, query: str, count: int = 1, after: int = 0) -> list[Any]:
        """Wait for so many successful decisions after a number."""
        for _ in range(300):
            found = self.get(f"decisions?result=scheduled&{query}")["decisions"]
            found = [each for each in found if each["seq"] > after]
            if len(found) >= count:
                return found
            time.sleep(0.1)
        raise AssertionError(f"{len(found)} of {count} decisions: {query}")


@contextmanager
def running_up(output: Path, *arguments: str) -> Iterator[Up]:
    """Run `mooring up` with these arguments; the token is printed once."""
    command = [sys.executable, "-m", "mooring.cli", "up", *arguments]
    with output.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        while not (found := re.search(r"^page: (\S+)$", output.read_text(), re.MULTILINE)):
            assert process.poll() is None, output.read_text()
            time.sleep(0.1)
        yield Up(found[1])
    finally:
        process.terminate()
        process.wait(30)
    assert output.read_text().count(found[1].partition("token=")[2]) == 1


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The tour's workload on twelve nodes."""
    output = tmp_path_factory.mktemp("up") / "output"
    with running_up(output, "--nodes", "12", "-f", str(EXAMPLES / "tour" / "workload.yaml")) as cluster:
        yield cluster


@contextmanager
def served(
    objects: list[KubeObject], *, port: int = 0, feature_gates: Mapping[str, bool] | None = None
) -> Iterator[tuple[str, Scheduler]]:
    """Serve these objects from a thread; yields the link and the scheduler, to be changed with care."""
    started: list[tuple[PageServer, Scheduler, asyncio.AbstractEventLoop, asyncio.Task[None]]] = []
    ready = threading.Event()

    async def main() -> None:
        settings = default_config()
        settings.feature_gates = dict(feature_gates or {})
        config, registry = LoadedConfig(settings), registry_with()
        core = Scheduler(config, clock=time.time, pick=random.Random(0).randrange, registry=registry)
        for obj in objects:
            core.apply(obj)
        source = FixedSource(core, config, registry, "test")
        server = PageServer(source, time.time, port=port, actions=WhatIf(source).actions())
        running = asyncio.create_task(server.run())
        started.append((server, core, asyncio.get_running_loop(), running))
        ready.set()
        await asyncio.wait([running])

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    assert ready.wait(60)
    server, core, loop, running = started[0]
    try:
        yield server.link, core
    finally:
        loop.call_soon_threadsafe(running.cancel)
        thread.join(30)


@pytest.fixture
def serve() -> Iterator[Callable[..., tuple[str, Scheduler]]]:
    with ExitStack() as stack:
        yield lambda objects, **more: stack.enter_context(served(objects, **more))
