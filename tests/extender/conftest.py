"""What tests of extenders share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.extender.calling_kit import MADE


@pytest.fixture(autouse=True)
def _close_connections() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().close()
