"""One control plane for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.control_plane import HOW_TO_GET, ControlPlane, assets


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    binaries = assets()
    if binaries is None:
        pytest.skip(HOW_TO_GET)
    folder: Path = tmp_path_factory.mktemp("control-plane")
    plane = ControlPlane(binaries, folder)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
