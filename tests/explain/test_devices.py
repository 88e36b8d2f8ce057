"""Explanations for pods that wait for devices, through `mooring schedule`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from mooring.cli import main

DRIVER = "gpu.example.com"
ENOUGH = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'


def node(name: str) -> dict[str, Any]:
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": allocatable},
    }


def devices(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def resource_slice(on: str, *memory: str, **device: Any) -> dict[str, Any]:
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    found = [
        {"name": f"gpu-{i}", "capacity": {"memory": {"value": each}}, **device}
        for i, each in enumerate(memory)
    ]
    return devices("ResourceSlice", on, {"driver": DRIVER, "nodeName": on, "pool": pool, "devices": found})


def device_class() -> dict[str, Any]:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return devices("DeviceClass", DRIVER, {"selectors": [selector]})


def template(**request: Any) -> dict[str, Any]:
    exactly = {"deviceClassName": DRIVER, "selectors": [{"cel": {"expression": ENOUGH}}], **request}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return devices("ResourceClaimTemplate", "gpus", {"spec": spec})


def pod(name: str) -> dict[str, Any]:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
    spec = {"containers": [{"name": "main", "image": "train"}], "resourceClaims": claims}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def schedule(folder: Path, *objects: dict[str, Any], explain: str) -> str:
    file = folder / "all.json"
    file.write_text("\n---\n".join(map(json.dumps, objects)))
    result = CliRunner().invoke(main, ["schedule", "-f", str(file), f"--explain={explain}"])
    assert result.exit_code == 0, result.output
    return result.output


def test_what_a_claim_needs_what_there_is_and_what_would_help(tmp_path: Path) -> None:
    cluster = [node("node-1"), resource_slice("node-1", "80Gi", "24Gi")]
    cluster += [node("node-2"), resource_slice("node-2", "80Gi", "80Gi"), node("node-3")]
    pods = [pod("train-1"), pod("train-2")]
    text = schedule(tmp_path, *cluster, device_class(), template(count=2), *pods, explain="train-2")
    assert "default/train-1  node-2     the only one of 3 nodes that fits" in text
    needs = f"0/3 nodes: claim `gpu` needs 2 devices of class {DRIVER} with memory ≥ 40Gi"
    assert f"{needs}; node-1 has 1; node-2 has 0 (gpu-0, gpu-1 used by default/train-1)" in text
    assert "ask for 1 device in request gpu of claim train-2-gpu  (node-1)" in text
    assert "drop memory ≥ 40Gi from request gpu of claim train-2-gpu  (node-1)" in text
    assert "delete default/train-1, which uses gpu-0, gpu-1 of node-2" in text
    assert "$ kubectl delete pod train-1 -n default" in text


def test_a_request_without_a_count_asks_for_one_and_taints_are_named(tmp_path: Path) -> None:
    broken = resource_slice("node-1", "80Gi", taints=[{"key": "broken", "effect": "NoSchedule"}])
    text = schedule(tmp_path, node("node-1"), broken, device_class(), template(), pod("a"), explain="a")
    assert "needs 1 device of class" in text
    assert "node-1 has 0 (gpu-0 tainted broken)" in text
    assert "tolerate the taints of the devices in request gpu of claim a-gpu" in text


def test_a_missing_template_is_named(tmp_path: Path) -> None:
    text = schedule(tmp_path, node("node-1"), pod("a"), explain="a")
    assert 'gated by DynamicResources: pod "default/a": ResourceClaim not created yet' in text
