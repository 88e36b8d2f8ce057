"""A new user's way through the page of a live `mooring up`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.web.browser.conftest import Tab, Up

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


def test_the_link_opens_the_cluster_without_a_token_in_the_address(tab: Tab, up: Up) -> None:
    tab.open(up.link)
    page = tab.page
    page.get_by_text("live", exact=True).wait_for()
    assert "token" not in page.url
    assert page.locator(".facts").inner_text().split()[0] == "12"
    assert page.locator(".map").get_attribute("data-tile") is not None
    for view in ("Queue", "Decisions", "What if", "Sandbox", "Cluster"):
        page.get_by_role("navigation").get_by_role("link", name=view).click()
        page.get_by_role("heading", level=1, name=view).first.wait_for(state="attached")
    assert tab.bytes < 300_000
    text = page.locator("body").inner_text()
    assert not any(bad in text for bad in ("undefined", "NaN", "[object"))


def test_why_is_a_pod_pending_and_what_would_help(tab: Tab, up: Up) -> None:
    tab.open(up.link)
    page = tab.page
    page.get_by_role("navigation").get_by_role("link", name="Queue").click()
    page.get_by_role("link", name="default/db-0").click()
    page.get_by_text("none of 12 nodes fits").wait_for()
    assert page.get_by_text("label node").count() >= 1
    page.get_by_role("grid").wait_for()
    assert page.get_by_role("gridcell", name="✗").count() == 12
    page.get_by_role("gridcell", name="✗").first.click()
    page.get_by_text("didn't match Pod's node affinity/selector").last.wait_for()
    linked = page.url
    assert "cell=" in linked
    before = up.get("cluster")["nodes"]
    page.get_by_role("button", name="Try in What if").first.click()
    page.get_by_role("heading", name="What if").wait_for()
    page.wait_for_function("() => document.getElementById('manifest')?.value.includes('kind: Pod')")
    page.get_by_role("button", name="Run").click()
    row = page.get_by_role("row", name="default/db-0")
    row.wait_for()
    assert "scheduled" in row.inner_text()
    assert up.get("cluster")["nodes"] == before
    page.goto(linked)
    page.locator("td[aria-selected=true]").wait_for()


def test_a_rollout_is_seen_while_it_happens(tab: Tab, up: Up) -> None:
    tab.open(up.link)
    page = tab.page
    page.goto(f"{up.base}/#/sandbox")
    page.get_by_label("Replicas of web").fill("90")
    page.get_by_role("button", name="Scale").nth(1).click()
    page.get_by_text("deployments/web scaled to 90").wait_for()
    page.goto(f"{up.base}/#/cluster")
    page.wait_for_function("() => Number(document.querySelectorAll('.facts b')[1]?.textContent) >= 90")
    counts = up.get("cluster")["nodes"]["podCounts"]
    page.wait_for_function(
        "(count) => Number(document.querySelectorAll('.facts b')[1].textContent) === count", arg=sum(counts)
    )
    page.goto(f"{up.base}/#/decisions?pod=web&result=scheduled")
    page.get_by_text("score").first.wait_for()
    page.get_by_role("row").nth(1).get_by_role("link").first.click()
    page.get_by_role("heading", name="Best nodes").wait_for()


def test_a_node_fails_and_recovers(tab: Tab, up: Up) -> None:
    tab.open(up.link)
    page = tab.page
    page.goto(f"{up.base}/#/cluster?node=node-05")
    page.get_by_role("button", name="Fail").click()
    page.locator(".panel .badge", has_text="NotReady").wait_for(timeout=120_000)
    page.locator(".facts", has_text="NotReady").wait_for()
    page.get_by_role("button", name="Recover").click()
    page.locator(".panel .badge", has_text="Ready").filter(has_not_text="Not").wait_for(timeout=60_000)


def test_the_scheduler_is_paused_and_stepped(tab: Tab, up: Up) -> None:
    tab.open(up.link)
    page = tab.page
    page.goto(f"{up.base}/#/sandbox")
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("paused", exact=True).first.wait_for()
    page.get_by_label("Manifest").fill(
        "\n---\n".join(
            f"apiVersion: v1\nkind: Pod\nmetadata: {{name: step-{i}}}\n"
            "spec: {containers: [{name: c, image: i}]}"
            for i in range(3)
        )
    )
    page.get_by_role("button", name="Apply the manifest").click()
    page.get_by_text("pod/step-2 created").wait_for()
    before = up.get("decisions?pod=step-")["decisions"]
    assert before == []
    page.get_by_role("button", name="One attempt").click()
    page.wait_for_function("() => true")
    while not (made := up.get("decisions?pod=step-")["decisions"]):
        page.wait_for_timeout(100)
    assert len(made) == 1
    page.get_by_role("button", name="Resume").click()
    while len(up.get("decisions?pod=step-")["decisions"]) < 3:
        page.wait_for_timeout(100)


def test_errors_in_manifests_are_shown_as_text(tab: Tab, up: Up) -> None:
    tab.open(up.link)
    page = tab.page
    page.goto(f"{up.base}/#/what-if")
    markup = "<img src=x onerror=document.title='broken'>"
    page.get_by_label("Manifest").fill(f"kind: Pod\nmetadata: [{markup}")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("alert").get_by_text("line").wait_for()
    page.get_by_label("Manifest").fill(f'apiVersion: v1\nkind: "{markup}"\nmetadata: {{name: x}}')
    page.get_by_role("button", name="Run").click()
    page.get_by_text("no object that the scheduler reads").wait_for()
    page.evaluate("() => { document.getElementById('manifest').value = 'x'.repeat(3 * 1024 * 1024 + 1); }")
    page.get_by_label("Manifest").evaluate("(area) => area.dispatchEvent(new Event('input'))")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("exceeds 3 MiB").wait_for()
    assert page.locator("img").count() == 1  # the logo
    assert page.title() != "broken"


def test_the_keyboard_reaches_everything_in_chinese_on_a_phone(new_tab: Callable[..., Tab], up: Up) -> None:
    tab = new_tab(viewport={"width": 390, "height": 844}, locale="zh-CN")
    tab.open(up.link)
    page = tab.page
    page.locator(".map").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.getElementById('announce').textContent.startsWith('node-')")
    page.keyboard.press("Enter")
    page.locator(".panel").wait_for()
    page.keyboard.press("Escape")
    page.locator(".panel").wait_for(state="detached")
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.get_by_role("heading", name="队列").wait_for()
    page.get_by_role("link", name="default/db-0").focus()
    page.keyboard.press("Enter")
    page.get_by_text("以下任一更改即可调度").wait_for()
    wide: Any = page.evaluate("() => document.documentElement.scrollWidth")
    assert wide <= 390
