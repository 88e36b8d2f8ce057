"""Objects of groups on a real API server."""

from __future__ import annotations

import json
from typing import Any

from tests.live.cluster import TestCluster


def create(cluster: TestCluster, *objects: dict[str, Any]) -> None:
    file = cluster.folder / "objects.json"
    for each in objects:
        each["metadata"].pop("uid", None)
        each.get("spec", {}).pop("priority", None)
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    cluster.kubectl("create", "-f", str(file))


def bound(cluster: TestCluster, prefix: str) -> list[str]:
    lines = cluster.kubectl(
        "get", "pods", "-o", "jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName}\n{end}"
    )
    words = [line.split() for line in lines.splitlines() if line.startswith(prefix)]
    return [word[1] for word in words if len(word) == 2]
