"""DeviceTaintRules in the sandbox: answers of kube-apiserver v1.36.4 with v1beta2 and the feature gate on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.printing.ages import Ages
from mooring.sandbox.cluster.applying import ManifestError
from mooring.testing.sandbox_cluster import SandboxCluster
from tests.sandbox.apiserver.kit import Direct
from tests.sandbox.apiserver.test_groups import sandbox

RECORDED = json.loads((Path(__file__).parent / "data" / "device_taint_rules.json").read_text())
TAINT = {"key": "example.com/taint", "value": "x", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[SandboxCluster]:
    with sandbox("DRADeviceTaintRules") as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("rule", "problems"), RECORDED, ids=[rule["metadata"]["name"] for rule, _ in RECORDED]
)
def test_rules_are_accepted_and_rejected_as_recorded(
    cluster: SandboxCluster, rule: dict[str, Any], problems: list[str]
) -> None:
    if not problems:
        cluster.apply(rule)
        assert cluster.get(f"devicetaintrule/{rule['metadata']['name']}")["metadata"]["generation"] == 1
        return
    with pytest.raises((ManifestError, ApiError)) as refusal:
        cluster.apply(rule)
    for problem in problems:
        assert problem in str(refusal.value)


def test_a_changed_effect_is_new(cluster: SandboxCluster) -> None:
    metadata = {"name": "changed"}
    rule = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": metadata}
    cluster.apply({**rule, "spec": {"taint": TAINT}})
    before = cluster.get("devicetaintrule/changed")
    cluster.advance(5)
    cluster.patch("devicetaintrule/changed", {"spec": {"taint": {"value": None}}})
    assert (
        cluster.get("devicetaintrule/changed")["spec"]["taint"]["timeAdded"]
        == (before["spec"]["taint"]["timeAdded"])
    )
    cluster.patch("devicetaintrule/changed", {"spec": {"taint": {"effect": "NoExecute"}}})
    after = cluster.get("devicetaintrule/changed")
    assert after["metadata"]["generation"] == 3
    cells = cluster.resource("devicetaintrules").printer.cells(after, Ages(cluster.now()))
    assert cells == ["changed", "example.com/taint", "", "NoExecute", "0s", "5s"]


def test_without_the_gate_nothing_is_served(direct: Direct) -> None:
    for version in ("v1", "v1beta2"):
        assert direct.api.registry.find("resource.k8s.io", version, "devicetaintrules") is None
