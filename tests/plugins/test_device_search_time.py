"""Claims whose devices cannot be found in any reasonable time: the attempt ends, and others are scheduled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from mooring.api.devices import ResourceClaim
from mooring.api.meta import KubeObject
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.plugins.dynamic_resources import search
from mooring.plugins.dynamic_resources.search import SearchTime
from mooring.testing import make_pod
from tests.plugins.plugin_kit import make_node
from tests.plugins.test_dynamic_resources import NOW, _object, claiming, device_class

NODES = 5


def hopeless() -> Iterator[KubeObject]:
    """A claim for 13 devices with the same attribute, of which each node has several times 12: there are
    thousands of choices of 12 each."""
    constraint = {"matchAttribute": "gpu.example.com/board"}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 13}}
    devices = {"requests": [request], "constraints": [constraint]}
    metadata = {"name": "gpu", "namespace": "default", "uid": "gpu", "resourceVersion": "1"}
    claim = _object("ResourceClaim", metadata, {"devices": devices})
    assert isinstance(claim, ResourceClaim)
    yield from (device_class(), claim)
    for i in range(NODES):
        each = [{"name": f"d{j}", "attributes": {"board": {"int": j // 12}}} for j in range(120)]
        pool = {"name": f"n{i}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": f"n{i}", "pool": pool, "devices": each}
        yield _object("ResourceSlice", {"name": f"n{i}"}, spec)
        yield make_node(f"n{i}")


def cluster(clock: Callable[[], float]) -> MemoryCluster:
    made = MemoryCluster(Scheduler(clock=clock, pick=lambda n: 0))
    for obj in (*hopeless(), claiming("train"), make_pod("other")):
        made.apply(obj)
    return made


def test_the_first_node_that_takes_too_long_ends_the_attempt() -> None:
    seconds = itertools.count(int(NOW))
    made = cluster(lambda: float(next(seconds)))
    decisions = {decision.pod: decision for decision in iter(made.scheduler.schedule_one, None)}
    assert "node n0: timed out trying to allocate devices" in decisions["default/train"].message
    assert decisions["default/train"].result == "error"
    assert decisions["default/other"].result == "scheduled"
    assert next(seconds) - NOW < 2 * 10 + NODES  # seconds, one for each look at the clock


def test_without_a_clock_that_runs_steps_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_STEPS", 5_000)
    made = cluster(lambda: NOW)
    decisions = {decision.pod: decision for decision in iter(made.scheduler.schedule_one, None)}
    assert "timed out trying to allocate devices" in decisions["default/train"].message
    assert decisions["default/other"].result == "scheduled"


def test_every_node_gets_a_share_and_one_that_needs_more_ends_all() -> None:
    now = 0.0
    time = SearchTime(10.0, lambda: now)
    is_late = time.start()
    now = 9.0
    assert not is_late(256)
    is_late = time.start()
    now = 11.0  # altogether too much, but a share is left
    is_late = time.start()
    assert not is_late(256)
    now = 11.09
    assert not is_late(512)
    now = 11.2
    assert is_late(768)
    assert time.start()(256)
