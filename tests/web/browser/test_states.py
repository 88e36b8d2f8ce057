"""What the page shows when something is wrong, unusual or large."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.api.decode import from_dict
from mooring.core.scheduler import Scheduler
from mooring.testing import make_node, make_pod
from tests.core.groups import group_kit
from tests.web.browser.conftest import Tab, served
from tests.web.test_runs import write_run

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

Serve = Callable[..., tuple[str, Scheduler]]


def test_markup_in_names_and_labels_is_shown_as_text(tab: Tab, serve: Serve) -> None:
    markup = "<img src=x onerror=document.title='broken'>"
    texts = {"zone": markup}
    node = make_node("n1", labels=texts, annotations=texts, taints=[f"{markup}:NoSchedule"])
    link, _ = serve([node, make_pod(markup, namespace="ns", node_selector={"a": markup})])
    tab.open(link)
    page = tab.page
    base = link.partition("/?")[0]
    for path in ("cluster?group=zone&node=n1", "cluster?group=zone&as=table", "queue", "decisions"):
        page.goto(f"{base}/#/{path}")
        page.get_by_role("heading", level=1).first.wait_for(state="attached")
        page.wait_for_timeout(300)
        assert page.locator("img").count() == 1
    page.goto(f"{base}/#/queue")
    page.get_by_role("link", name=markup).click()
    page.locator("#answer", has_text=markup).wait_for()
    assert page.locator("img").count() == 1
    assert page.title() != "broken"


def test_a_group_in_the_queue_says_what_it_needs_and_opens(tab: Tab, serve: Serve) -> None:
    trees = [*group_kit.gpu_nodes(2), *group_kit.gang("train", 3), *group_kit.members("early", 1)]
    link, _ = serve(list(map(from_dict, trees)), feature_gates=dict.fromkeys(group_kit.GATES, True))
    tab.open(link)
    page = tab.page
    page.get_by_role("navigation").get_by_role("link", name="Queue").click()
    row = page.get_by_role("row", name="default/train")
    row.get_by_text("Room for 3 pods at once is needed. 0 of 3 have a node.").wait_for()
    assert page.get_by_role("link", name="default/train-0").count() == 0
    row.get_by_role("button", name="default/train").click()
    page.get_by_role("link", name="default/train-0").wait_for()
    assert page.get_by_role("row").count() == 1 + 4 + 1  # the head, a group of three, another group
    assert "open=" in page.url
    page.reload()
    page.get_by_role("link", name="default/train-2").click()
    page.get_by_role("heading", name="default/train-2").wait_for()


def test_an_empty_cluster_says_so(tab: Tab, serve: Serve) -> None:
    link, _ = serve([])
    tab.open(link)
    tab.page.get_by_text("The cluster has no nodes.").wait_for()
    tab.page.get_by_role("navigation").get_by_role("link", name="Queue").click()
    tab.page.get_by_text("No pod is pending.").or_(tab.page.get_by_text("test")).first.wait_for()


def test_a_lost_connection_is_announced_and_taken_up_again(tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_urlsafe", lambda size: "t" * size)
    page = tab.page
    with served([make_node("n1")]) as (link, _):
        tab.open(link)
        port = int(link.partition("/?")[0].rpartition(":")[2])
    page.get_by_text("Disconnected.").wait_for()
    assert page.locator(".facts").inner_text().split()[0] == "1"
    tab.problems.clear()  # the browser reports refused connections
    with served([make_node("n1"), make_node("n2")], port=port):
        page.get_by_text("live", exact=True).wait_for()
        page.wait_for_function("() => document.querySelector('.facts b').textContent === '2'")
        assert page.locator("#banner").inner_text() == ""
    page.get_by_text("Disconnected.").wait_for()
    monkeypatch.setattr("secrets.token_urlsafe", lambda size: "u" * size)
    with served([make_node("n1")], port=port):
        page.get_by_text("Session expired").wait_for()
    tab.problems.clear()


def test_a_wrong_token_and_an_old_decision_have_pages_of_their_own(tab: Tab, serve: Serve) -> None:
    link, _ = serve([make_node("n1")])
    base = link.partition("/?")[0]
    tab.page.goto(f"{base}/?token=wrong#/queue")
    tab.page.get_by_role("heading", name="Session expired").wait_for()
    assert tab.page.url.endswith("#/queue")
    tab.page.goto("about:blank")
    tab.open(link)
    tab.page.goto(f"{base}/#/decisions/gone-1")
    tab.page.get_by_text("this decision is not kept any more").wait_for()


def test_long_names_and_many_nodes_fit(new_tab: Callable[..., Tab], serve: Serve) -> None:
    nodes = [make_node(f"{'long-' * 40}{i}", zone=f"z{i % 40}") for i in range(500)]
    link, core = serve([*nodes, make_pod("p", requests={"cpu": "99"})])
    for width in (1280, 390):
        tab = new_tab(viewport={"width": width, "height": 800})
        tab.open(link)
        base = link.partition("/?")[0]
        for path in (
            "cluster",
            f"cluster?node={nodes[0].name}",
            "cluster?as=table",
            "queue",
            "pods/default/p",
        ):
            tab.page.goto(f"{base}/#/{path}")
            tab.page.wait_for_timeout(300)
            assert tab.page.evaluate("() => document.documentElement.scrollWidth") <= width, path
    assert len(core.cluster.table) == 500


def test_tiles_are_found_where_they_are_drawn(tab: Tab, serve: Serve) -> None:
    link, _ = serve([make_node("n1")])
    tab.open(link)
    script = """async () => {
      const { layout, place, hit, fittingSize } = await import('./map/layout.js');
      const wrong = [];
      for (const size of [10, 24, 64, 112]) {
        const plan = layout([7, 0, 30], 500, size);
        plan.groups.forEach((group) => {
          for (let at = 0; at < group.count; at++) {
            const { x, y, w, h } = place(plan, group, at);
            if (hit(plan, x + w / 2, y + h / 2) !== group.first + at) wrong.push([size, at]);
          }
        });
        if (hit(plan, 1, 1) !== -1 || hit(plan, 250, plan.height + 50) !== -1) wrong.push(size);
      }
      if (fittingSize([5000], 1200, 700) !== 10) wrong.push('5000');
      return wrong;
    }"""
    result: Any = tab.page.evaluate(script)
    assert result == []


def test_a_run_is_shown_at_a_chosen_moment(tab: Tab, tmp_path: Path) -> None:
    for policy in ("default", "packed"):
        write_run(tmp_path / policy / "seed-1", policy)
    command = [sys.executable, "-m", "mooring.cli", "view", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.match(r"page: (\S+)$", process.stdout.readline())
            assert found is not None
            tab.open(found[1])
            page = tab.page
            page.get_by_role("navigation").get_by_role("link", name="Run").click()
            page.get_by_text("10s of 1m40s").wait_for()
            page.get_by_label("Run", exact=True).select_option("packed/seed-1")
            page.locator("#banner", has_text="policy packed").wait_for()
            page.get_by_label("Moment").fill("40")
            page.get_by_text("40s of 1m40s").wait_for()
            page.wait_for_function("() => location.hash.includes('at=40')")
            page.get_by_role("navigation").get_by_role("link", name="Queue").click()
            row = page.get_by_role("row", name="other/never")
            row.wait_for()
            assert "10s" in row.inner_text()  # created at 30 s; time stands still
        finally:
            process.send_signal(signal.SIGTERM)
