"""A new user's way through the page of a live `mooring up`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.web.browser.conftest import Tab, Up, running_up

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


def test_why_a_pod_is_here_and_not_there(tab: Tab, up: Up) -> None:
    pod = up.scheduled("pod=web")[0]
    tab.open(up.link)
    page = tab.page
    page.goto(f"{up.base}/#/pods/{pod['pod']}")
    answer = page.locator("#answer", has_text=f"is on {pod['node']}").inner_text()
    assert re.search(r"(best|score|only one)", answer), answer
    page.get_by_text("as if the pod had no node").wait_for()
    rows = page.get_by_role("grid").locator("tbody tr")
    texts = rows.locator("td:nth-child(2)").all_inner_texts()
    totals = [int(text) for text in texts if text != "–"]  # a node that does not fit has no score
    assert texts == [*map(str, sorted(totals, reverse=True)), *["–"] * (12 - len(totals))]
    assert totals
    rows.filter(has_text="here").get_by_role("link", name=pod["node"]).wait_for()
    score = rows.first.get_by_role("gridcell").last
    score.focus()
    page.get_by_text("raw score").wait_for()
    page.keyboard.press("ArrowDown")
    assert "cell=" in page.url


def test_a_node_fails_at_sixty_times_the_speed_and_its_pods_leave(tab: Tab, up: Up) -> None:
    tab.open(up.link)
    page = tab.page
    page.goto(f"{up.base}/#/sandbox")
    page.get_by_role("button", name="60×").click()
    page.get_by_text("time 60×").wait_for()
    nodes = up.get("cluster")["nodes"]
    node = nodes["names"][nodes["podCounts"].index(max(nodes["podCounts"]))]
    pods = [pod["pod"] for pod in up.get(f"nodes/{node}")["pods"]]
    page.goto(f"{up.base}/#/cluster?node={node}")
    before = up.get("decisions?limit=1")["decisions"][0]["seq"]
    page.get_by_role("button", name="Fail").click()
    page.locator(".panel .badge", has_text="NotReady").wait_for()
    page.locator(".facts", has_text="NotReady").wait_for()
    # Five minutes later its pods are evicted, and replaced elsewhere; they are gone once it is back.
    page.locator(".panel .badge", has_text="Terminating").first.wait_for()
    assert node not in {each["node"] for each in up.scheduled("", after=before)}
    page.get_by_role("button", name="Recover").click()
    page.get_by_role("heading", name=f"Pods ({len(pods)})").wait_for(state="detached")
    page.locator(".panel .badge", has_text="Ready").filter(has_not_text="Not").wait_for()
    page.get_by_role("heading", name="Recent decisions").wait_for()
    page.goto(f"{up.base}/#/sandbox")
    page.get_by_role("button", name="1×", exact=True).click()
    page.get_by_text("time 60×").wait_for(state="detached")
    assert all(flags == 0 for flags in up.get("cluster")["nodes"]["flags"])


PREEMPTION = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
---
apiVersion: v1
kind: Node
metadata: {name: small, labels: {kubernetes.io/hostname: small}}
status: {capacity: {cpu: "2", memory: 4Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: modest}
spec:
  terminationGracePeriodSeconds: 1
  nodeSelector: {kubernetes.io/hostname: small}
  containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]
"""


def test_a_pod_of_higher_priority_evicts_another(tab: Tab, up: Up) -> None:
    tab.open(up.link)
    page = tab.page
    page.goto(f"{up.base}/#/sandbox")
    urgent = PREEMPTION.rpartition("---")[2].replace("modest", "important")
    urgent = urgent.replace("spec:", "spec:\n  priorityClassName: urgent")
    for manifest, created in ((PREEMPTION, "modest"), (urgent, "important")):
        page.get_by_label("Manifest").fill(manifest)
        page.get_by_role("button", name="Apply the manifest").click()
        page.get_by_text(f"pod/{created} created").wait_for()
        up.scheduled(f"pod={created}&node=small")
    page.goto(f"{up.base}/#/decisions?pod=important")
    page.get_by_text("Evicts default/modest (priority 0)").wait_for()
    page.get_by_role("link", name="default/important").first.click()
    page.get_by_role("heading", name="Evicted for this pod").wait_for()
    page.get_by_text("default/modest (priority 0)").last.wait_for()
    page.get_by_role("link", name="default/modest").first.click()
    page.get_by_role("heading", name="Evicted to make room for").wait_for()
    page.get_by_role("link", name="default/important").wait_for()
    page.get_by_text("priority 1000").wait_for()


def test_without_a_connection_controls_cannot_be_reached(tab: Tab, tmp_path: Path) -> None:
    page = tab.page
    with running_up(tmp_path / "first", "--nodes", "3") as cluster:
        tab.open(cluster.link)
        page.goto(f"{cluster.base}/#/sandbox")
        page.get_by_role("button", name="Pause").wait_for()
    page.get_by_text("Disconnected.").wait_for(timeout=2_000)
    page.locator("h1").click()
    reached = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => Boolean(document.activeElement.closest('[data-control]'))"))
    assert reached == {False}
    page.get_by_role("navigation").get_by_role("link", name="Cluster").click()
    assert page.locator(".facts").inner_text().split()[0] == "3"  # what is known stays, with its age
    page.locator(".live", has_text="old").wait_for()
    page.get_by_role("navigation").get_by_role("link", name="What if").click()
    assert page.locator("[data-control]:not([inert])").count() == 0  # what is made later is out of reach, too
    port = cluster.base.rpartition(":")[2]
    with running_up(tmp_path / "second", "--nodes", "3", "--web-port", port):
        page.get_by_role("heading", name="Session expired").wait_for()  # another process, another token
    tab.problems.clear()  # the browser reports failed requests


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
    page.goto(f"{up.base}/#/queue?state=active")
    page.get_by_role("link", name="default/step-2").wait_for()  # the queue grows
    page.goto(f"{up.base}/#/sandbox")
    before = up.get("decisions?pod=step-")["decisions"]
    assert before == []
    page.get_by_role("button", name="One attempt").click()
    assert len(up.scheduled("pod=step-")) == 1
    page.get_by_role("button", name="Resume").click()
    up.scheduled("pod=step-", 3)


def test_a_late_response_does_not_take_the_focus_from_the_manifest(tab: Tab, up: Up) -> None:
    tab.open(up.link)
    page = tab.page
    late: list[Any] = []
    page.route("**/config", lambda route: late.append(route))
    page.goto(f"{up.base}/#/what-if")
    while not late:
        page.wait_for_timeout(10)
    assert page.get_by_label("Manifest").count() == 0  # the form is made once, with the response
    late[0].continue_()
    page.get_by_label("Manifest").fill("kind: Pod")
    assert page.get_by_label("Manifest").input_value() == "kind: Pod"


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
    answer = page.locator("#answer").inner_text()
    found = re.match(r"default/db-0 待调度：\d+ 个节点都不合适；可行的更改（12 个节点）：为节点 ", answer)
    assert found is not None, answer
    page.get_by_role("list", name="每个节点与每个插件").get_by_role("listitem").first.wait_for()
    own = page.evaluate("""async () => {
      const [{ en }, { zh }] = await Promise.all([import('./en.js'), import('./zh.js')]);
      return [Object.keys(en).filter((key) => !(key in zh)), Object.keys(zh).filter((key) => !(key in en))];
    }""")
    assert own[0] == []  # English alone; the other way, only what the server says in English
    assert {key.partition(".")[0] for key in own[1]} <= {"say", "advice", "awaited", "group", "run"}
    wide: Any = page.evaluate("() => document.documentElement.scrollWidth")
    assert wide <= 390
