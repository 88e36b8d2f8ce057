"""Fixtures of the embedded server's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox.apiserver.kit import Direct, Running, running


@pytest.fixture
def direct() -> Direct:
    return Direct()


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as found:
        yield found
