"""Validating a pod costs in proportion to what it holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.calls import growth
from tests.long_lists import LONG_SPECS, Spec
from tests.sandbox.apiserver.kit import Direct

SIZE = 200


def writing(spec: Spec) -> Callable[[], object]:
    """Create a pod, and change it."""
    direct = Direct()
    pod = {"metadata": {"name": "long"}, "spec": {"containers": [{"name": "main", "image": "app"}], **spec}}
    patch = {"metadata": {"labels": {"a": "b"}}}

    def run() -> None:
        direct.ask("create", "pods", body=pod)
        direct.ask("patch", "pods", "long", patch, content_type="application/merge-patch+json")

    return run


@pytest.mark.parametrize("kind", LONG_SPECS)
def test_the_work_is_linear_in_the_terms(kind: str) -> None:
    assert growth(lambda n: writing(LONG_SPECS[kind](n)), SIZE) < 2.3
