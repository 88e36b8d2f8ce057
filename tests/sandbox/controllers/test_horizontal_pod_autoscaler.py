"""HorizontalPodAutoscalers in virtual time: usage by annotations decides the replicas of a Deployment."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.sandbox.controllers import horizontal_pod_autoscaler, replica_proposals
from mooring.testing.sandbox_cluster import SandboxCluster
from tests.sandbox.controllers.autoscaling_scenes import (
    PERIOD,
    SAMPLED_AT,
    SAMPLES,
    SCENES,
    manifests,
    sample,
)

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: nginx, resources: {requests: {cpu: 100m, memory: 64Mi}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 9
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}
"""


def use(cluster: SandboxCluster, cpu: str) -> None:
    """Put a load on all pods."""
    for pod in cluster.pods("app=web"):
        cluster.patch(f"pod/{pod.name}", {"metadata": {"annotations": {"mooring/cpu-usage": cpu}}})


def replicas(cluster: SandboxCluster) -> int:
    number: int = cluster.get("deploy/web")["spec"]["replicas"]
    return number


def condition(cluster: SandboxCluster, type: str) -> dict[str, Any]:
    conditions = cluster.get("hpa/web")["status"]["conditions"]
    return next(one for one in conditions if one["type"] == type)


def test_load_adds_replicas_and_its_end_removes_them_after_five_minutes(
    mooring_cluster: SandboxCluster,
) -> None:
    mooring_cluster.apply(WEB)
    mooring_cluster.advance(60)
    status = mooring_cluster.get("hpa/web")["status"]
    assert status["currentMetrics"][0]["resource"]["current"] == {
        "averageUtilization": 50,
        "averageValue": "50m",
    }
    assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 2)
    assert condition(mooring_cluster, "ScalingActive")["reason"] == "ValidMetricFound"

    use(mooring_cluster, "54%")  # within the tolerance
    mooring_cluster.advance(30)
    assert replicas(mooring_cluster) == 2

    use(mooring_cluster, "100%")
    mooring_cluster.advance(16)
    assert replicas(mooring_cluster) == 4
    notes = [one.note for one in mooring_cluster.events("hpa/web") if one.reason == "SuccessfulRescale"]
    assert notes == [
        "New size: 4; reason: cpu resource utilization (percentage of request) above target",
    ]

    mooring_cluster.advance(400)  # new pods use half of their requests: 75% on average, then less
    use(mooring_cluster, "10%")
    mooring_cluster.advance(60)
    assert replicas(mooring_cluster) > 2
    assert condition(mooring_cluster, "AbleToScale")["reason"] == "ScaleDownStabilized"
    mooring_cluster.advance(300)
    assert replicas(mooring_cluster) == 2
    mooring_cluster.advance(320)  # by now all recent proposals are below the minimum
    assert condition(mooring_cluster, "ScalingLimited")["reason"] == "TooFewReplicas"


def test_replicas_stay_within_the_bounds(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(WEB)
    mooring_cluster.advance(60)
    use(mooring_cluster, "5")
    mooring_cluster.advance(16)
    assert replicas(mooring_cluster) == 4  # no more than double
    assert condition(mooring_cluster, "ScalingLimited")["reason"] == "ScaleUpLimit"
    mooring_cluster.advance(120)
    assert replicas(mooring_cluster) == 9
    assert condition(mooring_cluster, "ScalingLimited")["reason"] == "TooManyReplicas"
    mooring_cluster.scale("deploy/web", 12)
    mooring_cluster.advance(16)
    assert replicas(mooring_cluster) == 9


def test_without_requests_or_a_target_nothing_is_scaled(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(WEB.replace("cpu: 100m, ", ""))
    mooring_cluster.advance(60)
    active = condition(mooring_cluster, "ScalingActive")
    assert (active["status"], active["reason"]) == ("False", "FailedGetResourceMetric")
    assert "missing request for cpu in container main of Pod web-" in active["message"]
    mooring_cluster.delete("deploy/web")
    mooring_cluster.advance(16)
    able = condition(mooring_cluster, "AbleToScale")
    assert (able["status"], able["reason"]) == ("False", "FailedGetScale")
    assert able["message"].endswith('deployments.apps "web" not found')


def test_one_container_decides(mooring_cluster: SandboxCluster) -> None:
    manifest = WEB.replace(
        "type: Resource, resource: {name: cpu,",
        "type: ContainerResource, containerResource: {name: cpu, container: main,",
    )
    idle = "      - {name: idle, image: nginx, resources: {requests: {cpu: 300m}}}"
    mooring_cluster.apply(manifest.replace("64Mi}}}\n", f"64Mi}}}}}}\n{idle}\n"))
    mooring_cluster.advance(60)
    use(mooring_cluster, "200m")  # 100m each: 100 % of the request of one, 33 % of the other's
    mooring_cluster.advance(16)
    assert replicas(mooring_cluster) == 4
    assert mooring_cluster.get("hpa/web")["status"]["currentMetrics"] == [
        {
            "type": "ContainerResource",
            "containerResource": {
                "name": "cpu",
                "container": "main",
                "current": {"averageUtilization": 100, "averageValue": "100m"},
            },
        }
    ]


def test_a_container_that_pods_lack_cannot_be_measured(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(
        WEB.replace(
            "type: Resource, resource: {name: cpu,",
            "type: ContainerResource, containerResource: {name: cpu, container: none,",
        )
    )
    mooring_cluster.advance(60)
    active = condition(mooring_cluster, "ScalingActive")
    assert (active["status"], active["reason"]) == ("False", "FailedGetContainerResourceMetric")
    assert "failed to get cpu utilization: did not receive metrics for targeted pods" in active["message"]


def test_requests_of_the_pod_come_before_those_of_containers(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(WEB.replace("    spec:\n", "    spec:\n      resources: {requests: {cpu: 400m}}\n"))
    mooring_cluster.advance(60)
    use(mooring_cluster, "300m")
    mooring_cluster.advance(16)
    assert replicas(mooring_cluster) == 3  # 75 % of 400m, and the target is 50 %


STEP = 5  # seconds


@pytest.mark.slow  # nine Deployments for five minutes of virtual time
def test_behaviors_limit_the_replicas_as_in_kube_controller_manager(mooring_cluster: SandboxCluster) -> None:
    recorded = json.loads((Path(__file__).parent / "data" / "autoscaling.json").read_text())
    for name, scene in SCENES.items():
        mooring_cluster.apply(manifests(name, scene)[0])
    mooring_cluster.advance(5)
    for name, scene in SCENES.items():
        mooring_cluster.apply(manifests(name, scene)[1])
    samples: dict[str, list[Any]] = {name: [] for name in SCENES}
    for second in range(0, SAMPLES * PERIOD + SAMPLED_AT + 1, STEP):
        for name, scene in SCENES.items():
            put_load(mooring_cluster, name, scene.load(second))
        if second > PERIOD and second % PERIOD == SAMPLED_AT:
            for name, seen in samples.items():
                seen.append(sample(mooring_cluster.get(f"deploy/{name}"), mooring_cluster.get(f"hpa/{name}")))
        mooring_cluster.advance(STEP)
    for name in SCENES:
        assert samples[name] == recorded[name], name


def put_load(cluster: SandboxCluster, app: str, mebibytes: int) -> None:
    """Divide a load among the pods of a Deployment."""
    pods = cluster.pods(f"app={app}")
    for pod in pods:
        usage = str(mebibytes * 1024 * 1024 // len(pods))
        if pod.metadata.annotations.get("mooring/memory-usage") != usage:
            patch = {"metadata": {"annotations": {"mooring/memory-usage": usage}}}
            cluster.patch(f"pod/{pod.name}", patch)


def test_others_have_their_turn_between_metrics(
    mooring_cluster: SandboxCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each metric looks at all pods."""
    seen: list[str] = []

    def propose(*args: Any) -> Any:
        asyncio.get_running_loop().call_soon(seen.append, "others")
        seen.append("metric")
        return replica_proposals.propose(*args)

    monkeypatch.setattr(horizontal_pod_autoscaler, "propose", propose)
    metric = WEB.splitlines()[-1]
    mooring_cluster.apply(f"{WEB}{metric}\n{metric}\n")
    mooring_cluster.advance(16)
    assert seen[:6] == ["metric", "others"] * 3
