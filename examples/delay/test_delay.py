"""A delayed pod is bound when its time has come, not at the next retry."""

import pytest
from delay import Delay

from mooring.testing import make_cluster, make_node, make_pod


def cluster_with(pod):
    cluster = make_cluster([make_node()], plugins=[Delay])
    cluster.apply(pod)
    cluster.schedule()
    return cluster


def test_a_pod_waits_for_its_time_and_no_longer():
    cluster = cluster_with(make_pod("late", annotations={"delay": "15"}))
    assert cluster.node_of("late") == ""
    assert "not before 2030-01-01T00:00:15Z, 15 s after its creation" in cluster.decision("late").message
    cluster.advance(14.99)
    assert cluster.node_of("late") == ""
    cluster.advance(0.01)
    assert cluster.node_of("late") == "node"


def test_a_pod_without_a_delay_is_scheduled_at_once():
    assert cluster_with(make_pod("now")).node_of("now") == "node"


@pytest.mark.parametrize("text", ["soon", "", "1.5"])
def test_a_malformed_delay_is_told_and_passed_over(text):
    cluster = cluster_with(make_pod("odd", annotations={"delay": text}))
    assert cluster.node_of("odd") == "node"
    [event] = [event for event in cluster.events() if event.reason == "MalformedDelay"]
    assert f'found "{text}"' in event.note
