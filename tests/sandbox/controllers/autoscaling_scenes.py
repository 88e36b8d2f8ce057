"""HorizontalPodAutoscalers with behaviors and the load on their workloads, for recordings and comparisons.

A load is the memory that all pods of a Deployment use together, so the proposals do not depend on how fast
pods start. It changes between two syncs of the autoscalers, which are 15 seconds apart.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Tree = dict[str, Any]

PERIOD = 15
SAMPLED_AT = 10  # seconds after a sync
SAMPLES = 20


def rules(*policies: tuple[str, int, int], **fields: Any) -> Tree:
    listed = [{"type": type, "value": value, "periodSeconds": seconds} for type, value, seconds in policies]
    return {**({"policies": listed} if listed else {}), **fields}


class Scene(NamedTuple):
    loads: dict[int, int]
    """MiB from a second on; each replica is to use 100."""
    up: Tree = {}
    down: Tree = {}

    def load(self, second: float) -> int:
        return [mebibytes for since, mebibytes in self.loads.items() if since <= second][-1]


RISE_AND_FALL = {0: 200, 37: 1000, 127: 200}
AT_ONCE: Tree = {"stabilizationWindowSeconds": 0}
SCENES = {
    "plain": Scene(RISE_AND_FALL),
    "pods": Scene(RISE_AND_FALL, rules(("Pods", 1, 40)), rules(("Pods", 2, 40), **AT_ONCE)),
    "smallest-change": Scene(
        RISE_AND_FALL,
        rules(("Pods", 4, 40), ("Percent", 50, 40), selectPolicy="Min"),
        rules(("Pods", 1, 40), ("Percent", 50, 20), selectPolicy="Min", stabilizationWindowSeconds=40),
    ),
    "largest-change": Scene(
        RISE_AND_FALL,
        rules(("Pods", 1, 40), ("Percent", 10, 20)),
        rules(("Pods", 1, 40), ("Percent", 50, 70), stabilizationWindowSeconds=40),
    ),
    "never-down": Scene(RISE_AND_FALL, down={"selectPolicy": "Disabled", **AT_ONCE}),
    "never-up": Scene(RISE_AND_FALL, up={"selectPolicy": "Disabled"}, down=AT_ONCE),
    "late-up": Scene(
        {0: 200, 37: 600, 67: 300, 97: 800},
        {"stabilizationWindowSeconds": 40},
        {"stabilizationWindowSeconds": 50},
    ),
    "tolerances": Scene(
        {0: 200, 37: 280, 67: 320, 97: 290, 127: 285, 157: 450, 187: 420, 217: 390},
        {"tolerance": "0.5"},
        {"tolerance": "50m", **AT_ONCE},
    ),
    "slow-down-then-up": Scene(
        {0: 200, 22: 900, 97: 100, 142: 900}, {}, rules(("Percent", 25, 20), **AT_ONCE)
    ),
}


def manifests(name: str, scene: Scene) -> list[Tree]:
    """Return the Deployment and the autoscaler of a scene."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    deployment = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    target = {"type": "AverageValue", "averageValue": "100Mi"}
    autoscaler: Tree = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": 2,
        "maxReplicas": 9,
        "metrics": [{"type": "Resource", "resource": {"name": "memory", "target": target}}],
    }
    if name != "plain":
        autoscaler["behavior"] = {"scaleUp": scene.up, "scaleDown": scene.down}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": deployment},
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": name},
            "spec": autoscaler,
        },
    ]


def sample(deployment: Tree, autoscaler: Tree) -> list[Any]:
    """Return what is compared: the replicas, and the conditions with their messages."""
    conditions = autoscaler.get("status", {}).get("conditions", [])
    texts = {one["type"]: f"{one['status']} {one['reason']}: {one['message']}" for one in conditions}
    return [deployment["spec"]["replicas"], texts.get("AbleToScale"), texts.get("ScalingLimited")]
