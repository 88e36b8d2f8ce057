"""The page of a scheduler process: read-only, behind its authentication."""

from __future__ import annotations

import json
from pathlib import Path

from msgspec.structs import replace

from mooring.process.scheduler_process import SchedulerProcess
from mooring.testing import make_node
from mooring.web.scheduler_page import SchedulerPage
from tests.live.test_process import KUBECONFIG, Scenario, asked, running, settings


def serve(tmp_path: Path, scenario: Scenario, *open_paths: str) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    given = settings(str(kubeconfig), authorization_always_allow_paths=open_paths)
    running(replace(given, page=SchedulerPage(given.config, given.registry)), scenario)


def test_the_page_and_its_api_are_below_web(tmp_path: Path) -> None:
    async def scenario(process: SchedulerProcess) -> None:
        process.scheduler.apply(make_node("n1"))
        assert "<!doctype html>" in (await asked(process, "/web/")).text
        assert (await asked(process, "/web/theme.css")).status == 200
        assert (await asked(process, "/web/none")).status == 404
        meta = json.loads((await asked(process, "/web/v1/meta")).text)
        assert (meta["mode"], meta.get("features")) == ("scheduler", None)
        assert "standby" in meta["status"]
        assert json.loads((await asked(process, "/web/v1/cluster")).text)["nodes"]["names"] == ["n1"]

    serve(tmp_path, scenario, "/web/*")


def test_the_page_needs_authorization(tmp_path: Path) -> None:
    async def scenario(process: SchedulerProcess) -> None:
        for path in ("/web/", "/web/v1/meta", "/web/v1/events"):
            assert (await asked(process, path)).status in (401, 403)

    serve(tmp_path, scenario)
