"""Integers of more than 64 bits in custom resources; data/integers.json has the answers of a real server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from tests.sandbox.apiserver.kit import Direct
from tests.sandbox.apiserver.scene import DATA

RECORDED = json.loads((DATA / "integers.json").read_text())


@pytest.fixture(scope="module")
def defined() -> Direct:
    direct = Direct()
    direct.ask(
        "create", "customresourcedefinitions", body=RECORDED["definition"], group="apiextensions.k8s.io"
    )
    return direct


@pytest.mark.parametrize(("spec", "answer"), RECORDED["answers"])
def test_answers_are_those_of_a_real_server(defined: Direct, spec: str, answer: Any) -> None:
    head = '{"apiVersion":"example.com/v1","kind":"Int","metadata":{"generateName":"x"},"spec":'
    body = f"{head}{spec}}}".encode()
    try:
        found: Any = defined.tree("create", "ints", body=body, group="example.com")["spec"]
    except ApiError as error:
        found = (error.details or {})["causes"]
    assert found == answer
