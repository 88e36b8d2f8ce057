"""The pictures of the documentation, taken from a live cluster. MOORING_PICTURES=docs/images keeps them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.web.browser.conftest import Tab, Up

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
      - {{name: c, image: i, resources: {{requests: {{cpu: "{cpu}", memory: 2Gi}}}}}}
"""
WORKLOADS = (("shop", 16, 3), ("search", 15, 2), ("cache", 20, 1), ("index", 8, 4))
LARGEST = 90_000  # bytes


def test_pictures_are_taken_and_small(tab: Tab, up: Up, tmp_path: Path) -> None:
    folder = Path(os.environ.get("MOORING_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    tab.page.set_viewport_size({"width": 1120, "height": 570})
    tab.open(up.link)
    page = tab.page
    page.goto(f"{up.base}/#/sandbox")
    manifest = "---".join(DEPLOYMENT.format(name=n, replicas=r, cpu=c) for n, r, c in WORKLOADS)
    page.get_by_label("Manifest").fill(manifest)
    page.get_by_role("button", name="Apply the manifest").click()
    page.get_by_text("deployment.apps/index created").wait_for()
    for node in ("node-04", "node-09"):
        page.get_by_label("Node", exact=True).fill(node)
        page.get_by_role("button", name="Cordon", exact=True).click()
        page.get_by_text(f"node/{node} cordoned").wait_for()
    page.goto(f"{up.base}/#/cluster?node=node-02")
    placed = sum(replicas for _, replicas, _ in WORKLOADS)
    page.wait_for_function(
        "(count) => Number(document.querySelectorAll('.facts b')[1]?.textContent) >= count", arg=placed
    )
    page.locator(".panel table").wait_for()
    page.locator(".legend", has_text="Deployment/index").wait_for()
    picture = page.screenshot(path=folder / "cluster.png")
    assert len(picture) < LARGEST
