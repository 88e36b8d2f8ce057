"""Security contexts: data/security.json has what kube-apiserver v1.36.4 answered to each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from tests.sandbox.apiserver.kit import Direct
from tests.sandbox.apiserver.scene import DATA

RECORDED: list[list[Any]] = json.loads((DATA / "security.json").read_text())


@pytest.mark.parametrize(("spec", "causes"), RECORDED, ids=range(len(RECORDED)))
def test_causes_are_those_of_a_real_server(
    direct: Direct, spec: dict[str, Any], causes: list[dict[str, str]] | None
) -> None:
    body = {"metadata": {"name": "p"}, "spec": spec}
    if causes is None:
        direct.ask("create", "pods", body=body)
        return
    with pytest.raises(ApiError) as caught:
        direct.ask("create", "pods", body=body)
    assert (caught.value.details or {})["causes"] == causes
