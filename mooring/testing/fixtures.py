"""A pytest plugin, registered when Mooring is installed: the fixture `cluster`.

@pytest.mark.cluster(nodes=5, plugins=[GpuPack])
def test_gpus(cluster):
    cluster.apply("train.yaml")
    cluster.wait_scheduled()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mooring.testing.whole_cluster import WholeCluster


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "cluster(nodes, plugins, args, config, seed, start): what Mooring's fixture `cluster` is made of",
    )


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[WholeCluster]:
    """A whole cluster in this process, in virtual time: of three nodes, or as the mark `cluster` says."""
    from mooring.testing.whole_cluster import WholeCluster  # only where it is used: it is most of Mooring

    mark = request.node.get_closest_marker("cluster")
    made = WholeCluster(*mark.args, **mark.kwargs) if mark is not None else WholeCluster()
    yield made
    made.close()
