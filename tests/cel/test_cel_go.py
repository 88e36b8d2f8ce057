"""Selectors as kube-scheduler evaluates them: results and errors recorded from v1.36's own compiler."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from mooring.api.devices import Device
from mooring.plugins.dynamic_resources.device_selectors import Selectors

RECORDED = Path(__file__).parent / "data" / "cel_go.json"
DRIVER = "a.example.com"
DEVICE = {
    "name": "d",
    "attributes": {
        "model": {"string": "x"},
        "a.example.com/index": {"int": 1},
        "ver": {"version": "1.2.3"},
        "ok": {"bool": True},
        "other.io/numa": {"int": 0},
    },
    "capacity": {"memory": {"value": "40Gi"}},
}


def test_selectors_have_the_recorded_results_and_errors() -> None:
    selectors = Selectors()
    device = selectors.input(DRIVER, msgspec.convert(DEVICE, Device))
    differences = []
    for expression, expected in json.loads(RECORDED.read_text()):
        verdict = selectors.matches(expression, device)
        if isinstance(expected, str):
            expected = f"CEL runtime error: {expected}"
        if verdict != expected:
            differences.append((expression, expected, verdict))
    assert differences == []
