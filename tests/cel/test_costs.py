"""Costs of selectors as cel-go estimates and counts them, recorded from v1.36's own compiler."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from mooring.api.devices import Device
from mooring.cel import CelError
from mooring.cel.counting import CountingProgram
from mooring.cel.device_selector import COST_LIMIT, check_selector, estimate_selector
from mooring.cel.values import native_bool
from mooring.plugins.dynamic_resources.device_selectors import Selectors

RECORDED = json.loads((Path(__file__).parent / "data" / "costs.json").read_text())
EXCEEDED = "CEL runtime error: operation cancelled: actual cost limit exceeded"
DRIVER = "a.example.com"
DEVICES = [
    {
        "name": "d",
        "attributes": {
            "model": {"string": "x"},
            "a.example.com/index": {"int": 1},
            "ver": {"version": "1.2.3"},
            "ok": {"bool": True},
            "other.io/numa": {"int": 0},
        },
        "capacity": {"memory": {"value": "40Gi"}},
    },
    {"name": "e", "allowMultipleAllocations": True},
    {
        "name": "f",
        "attributes": {
            "model": {"string": "long-model-name"},
            "index": {"int": -7},
            "ok": {"bool": False},
            "other.io/numa": {"string": "0"},
        },
        "capacity": {"memory": {"value": "1500m"}, "other.io/slots": {"value": "3"}},
    },
]


def test_estimates_are_those_of_cel_go() -> None:
    estimates = [(row[0], estimate_selector(check_selector(row[0]))) for row in RECORDED]
    assert estimates == [(expression, estimate) for expression, estimate, _ in RECORDED]


def test_costs_are_those_of_cel_go() -> None:
    inputs = [Selectors().input(DRIVER, msgspec.convert(device, Device)) for device in DEVICES]
    differences = []
    for expression, _, costs in RECORDED:
        program = CountingProgram(check_selector(expression))
        for device, expected in zip(inputs, costs, strict=True):
            cost = _cost(program, device.variables())
            if cost != expected:
                differences.append((expression, device.device.name, expected, cost))
    assert differences == []


def _cost(program: CountingProgram, variables: object) -> int | str:
    assert isinstance(variables, dict)
    try:
        value, cost = program.evaluate(variables, COST_LIMIT)
        native_bool(value)
    except CelError as error:
        return str(error)
    return cost


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ("lists.range(999987).size() == 999987", True),  # costs 1,000,000
        ("lists.range(999988).size() == 999988", EXCEEDED),
        ("lists.range(9999999).size() == 1 || true", EXCEEDED),
    ],
)
def test_a_selector_that_costs_too_much_fails(expression: str, verdict: bool | str) -> None:
    selectors = Selectors()
    assert selectors.matches(expression, selectors.input(DRIVER, Device("d"))) == verdict


def test_errors_of_selectors_are_those_of_the_compiler() -> None:
    selectors = Selectors()
    device = selectors.input(DRIVER, Device("d"))
    assert selectors.matches("device.drivre", device) == (
        "CEL compile error: compilation failed: ERROR: <input>:1:7: undefined field 'drivre'\n"
        " | device.drivre\n | ......^"
    )
    assert selectors.matches('int("x") == 5', device) == (
        "CEL compile error: program instantiation failed: type conversion error from 'string' to 'int'"
    )
