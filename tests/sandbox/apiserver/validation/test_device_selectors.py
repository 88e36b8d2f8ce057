"""CEL selectors that kube-apiserver v1.36 accepts or rejects, with its messages."""

from __future__ import annotations

import json
from pathlib import Path

from mooring.sandbox.apiserver.validation.device_selectors import device_selector

RECORDED = Path(__file__).parents[1] / "data" / "selectors.json"


def test_selectors_are_accepted_and_rejected_as_recorded() -> None:
    differences = []
    for expression, expected in json.loads(RECORDED.read_text()):
        causes = list(device_selector("selector", {"cel": {"expression": expression}}))
        message = causes[0].message if causes else ""
        if not (f": {message}".endswith(f": {expected}") if expected else not message):
            differences.append((expression, expected, message))
    assert differences == []
