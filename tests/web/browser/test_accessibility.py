"""No view has a finding of axe-core, in either theme, language and width.

axe-core is not part of this repository: `npm install axe-core` somewhere, and AXE=…/axe-core/axe.min.js.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.web.browser.conftest import Tab, Up

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

VIEWS = (
    "cluster?node=node-02",
    "cluster?as=table",
    "queue",
    "decisions",
    "pods/default/db-0",
    "what-if",
    "sandbox",
)
AUDIT = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations.map(
  (each) => `${each.id}: ${each.nodes.map((node) => node.target.join(" ")).slice(0, 3).join(", ")}`)"""


@pytest.mark.parametrize(
    ("width", "theme", "locale"),
    [(1280, "light", "en-US"), (1280, "dark", "zh-CN"), (390, "dark", "en-US"), (390, "light", "zh-CN")],
)
def test_axe_finds_nothing(new_tab: Callable[..., Tab], up: Up, width: int, theme: str, locale: str) -> None:
    source = os.environ.get("AXE", "")
    if not source:
        pytest.skip("needs AXE=…/axe-core/axe.min.js: `npm install axe-core`")
    tab = new_tab(viewport={"width": width, "height": 844}, color_scheme=theme, locale=locale)
    tab.open(up.link)
    tab.page.evaluate(Path(source).read_text())
    found = {}
    for view in VIEWS:
        tab.page.goto(f"{up.base}/#/{view}")
        tab.page.get_by_role("heading", level=1).first.wait_for(state="attached")
        tab.page.wait_for_timeout(500)
        if problems := tab.page.evaluate(AUDIT):
            found[view] = problems
    assert found == {}
