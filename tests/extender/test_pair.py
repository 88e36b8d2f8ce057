"""Both sides at once: Mooring's scheduler calls `mooring extender`, and the document's story comes true."""

from __future__ import annotations

import runpy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.sandbox_cluster import SandboxCluster
from tests.extender.calling_kit import PATIENT, Setting, nodes, pod
from tests.extender.serving_kit import Asked, extender

LABEL = "priority.lixueduan.com"
EXAMPLE = Path(__file__).parents[2] / "examples" / "extender" / "priority.py"
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "test"},
    "spec": {
        "selector": {"matchLabels": {"app": "test"}},
        "template": {
            "metadata": {"labels": {"app": "test"}},
            "spec": {"containers": [{"name": "main", "image": "busybox"}]},
        },
    },
}


@pytest.fixture(scope="module")
def priority() -> Iterator[Asked]:
    found = runpy.run_path(str(EXAMPLE))
    with extender(*(found[name] for name in ("labelled", "only_the_best", "score"))) as served:
        yield served


def asking(served: Asked, verb: str, **more: Any) -> dict[str, Any]:
    return {
        "urlPrefix": served.process.url,
        "filterVerb": verb,
        "prioritizeVerb": "prioritize",
        "weight": 1,
        "httpTimeout": PATIENT,
        **more,
    }


class Story:
    def __init__(self, cluster: SandboxCluster) -> None:
        self.cluster = cluster
        self._restarts = 0

    def label(self, node: str, value: str) -> None:
        self.cluster.patch(f"node/{node}", {"metadata": {"labels": {LABEL: value}}})

    def restart(self) -> str:
        """As `kubectl rollout restart` does it; where the new pod is."""
        self._restarts += 1
        annotations = {"kubectl.kubernetes.io/restartedAt": f"{self._restarts}"}
        self.cluster.patch(
            "deployment/test", {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        )
        self.cluster.advance(60)
        return self.where()

    def where(self) -> str:
        (found,) = self.cluster.pods("app=test")
        return found.spec.node_name


def story(served: Asked, verb: str, labels: Mapping[str, str] | None = None) -> Story:
    """Apply the Deployment once the nodes have their labels: one label is enough to schedule its pod."""
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    told = Story(SandboxCluster(2, config={**kind, "extenders": [asking(served, verb)]}))
    for node, value in (labels or {}).items():
        told.label(node, value)
    told.cluster.apply(DEPLOYMENT)
    told.cluster.advance(5)
    return told


def test_pending_until_a_node_is_labelled(priority: Asked) -> None:
    told = story(priority, "filter")
    with told.cluster:
        assert told.where() == ""
        (waiting,) = told.cluster.pods("app=test")
        assert f"all node do not have label {LABEL}" in [c.message for c in waiting.status.conditions]
        told.label("node-1", "10")
        told.cluster.advance(60)
        assert told.where() == "node-1"


def test_the_only_one_that_is_returned_decides(priority: Asked) -> None:
    told = story(priority, "filter_onlyone", {"node-1": "10", "node-2": "20"})
    with told.cluster:
        assert told.where() == "node-2"
        told.label("node-1", "30")
        assert told.restart() == "node-1"
        told.label("node-2", "40")
        assert told.restart() == "node-2"


def test_scores_go_both_ways(priority: Asked) -> None:
    setting = Setting(asking(priority, "filter"))
    setting.apply(*nodes("a", "b", "c"))
    for name, value in (("a", "3"), ("b", "50")):
        node = next(n for n in nodes(name))
        node.metadata.labels[LABEL] = value
        setting.apply(node)
    setting.apply(pod())
    assert setting.last.scores[f"extender {priority.process.url}"].raw == [3, 50]
    assert setting.node_of("web") == "b"
