"""The public names of mooring.testing: what is added or lost here is noticed by those who use it."""

from __future__ import annotations

import mooring.testing


def test_public_names() -> None:
    assert sorted(mooring.testing.__all__) == [
        "Cluster",
        "VirtualClock",
        "affinity_term",
        "check_plugin",
        "config_with",
        "label_selector",
        "make_cluster",
        "make_node",
        "make_pod",
        "node_term",
        "spread_constraint",
        "taint",
        "toleration",
    ]


def test_all_of_them_exist_and_say_what_they_are_for() -> None:
    for name in mooring.testing.__all__:
        assert getattr(mooring.testing, name).__doc__, name
