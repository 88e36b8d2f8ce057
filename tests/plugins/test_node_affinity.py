"""NodeAffinity."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api import objects
from mooring.framework.events import Action, ClusterEvent, Resource
from mooring.framework.plugin import PreFilterResult
from mooring.framework.status import Code, unresolvable
from mooring.plugins.node_affinity import NodeAffinity
from mooring.runtime.engine_state import EngineState
from tests.plugins.plugin_kit import Cluster, hint, make, make_node, make_pod

NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
NODE_LABEL = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
REFUSED = unresolvable("node(s) didn't match Pod's node affinity/selector")
ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def term(*expressions: dict[str, Any], fields: Any = ()) -> dict[str, Any]:
    return {"matchExpressions": list(expressions), "matchFields": list(fields)}


def named(*names: str) -> dict[str, Any]:
    return term(fields=[expression("metadata.name", "In", name) for name in names])


def requiring(*terms: dict[str, Any], **spec: Any) -> objects.Pod:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return make_pod(affinity={"nodeAffinity": required}, **spec)


def preferring(*weighted: tuple[int, dict[str, Any]]) -> objects.Pod:
    terms = [{"weight": weight, "preference": preference} for weight, preference in weighted]
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": terms}
    return make_pod(affinity={"nodeAffinity": preferred})


def added(**affinity: Any) -> NodeAffinity:
    return make(NodeAffinity, added_affinity=msgspec.convert(affinity, objects.NodeAffinity))


def zones(*values: str) -> Cluster:
    return Cluster(make_node(f"n{i}", labels={"zone": zone}) for i, zone in enumerate(values))


# ---- filter


def test_selector_and_affinity_must_both_match() -> None:
    cluster = Cluster(
        [
            make_node("both", labels={"zone": "a", "disk": "ssd"}),
            make_node("zone", labels={"zone": "a"}),
            make_node("disk", labels={"disk": "ssd"}),
        ]
    )
    pod = requiring(term(expression("zone", "In", "a", "b")), nodeSelector={"disk": "ssd"})
    assert cluster.filter(make(NodeAffinity), pod) == {"both": None, "zone": REFUSED, "disk": REFUSED}


def test_affinity_without_terms_matches_no_node() -> None:
    cluster = zones("a")
    assert cluster.filter(make(NodeAffinity), requiring()) == {"n0": REFUSED}
    assert cluster.filter(make(NodeAffinity), requiring(term())) == {"n0": REFUSED}


def test_the_profiles_affinity_is_blamed_first() -> None:
    terms = [{"matchExpressions": [expression("zone", "In", "a")]}]
    plugin = added(requiredDuringSchedulingIgnoredDuringExecution={"nodeSelectorTerms": terms})
    assert zones("a", "b").filter(plugin, make_pod()) == {"n0": None, "n1": ENFORCED}
    pod = make_pod(nodeSelector={"zone": "c"})
    assert zones("a", "b").filter(plugin, pod) == {"n0": REFUSED, "n1": ENFORCED}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (requiring(named("a")), frozenset({"a"})),
        (requiring(named("a"), named("b")), frozenset({"a", "b"})),
        (requiring(named("a"), term(expression("zone", "Exists"))), None),  # the other term may match any
        (requiring(named("a"), named("b", "c")), frozenset({"a"})),  # no node has two names
        (requiring(term(fields=[expression("metadata.name", "NotIn", "a")])), None),
        (requiring(), None),
        (make_pod(nodeSelector={}), None),
    ],
)
def test_named_nodes_are_the_only_candidates(pod: objects.Pod, expected: frozenset[str] | None) -> None:
    answer = zones("a").pre_filter(make(NodeAffinity), pod)
    assert answer == (None if expected is None else PreFilterResult(expected))


def test_terms_that_all_contradict_themselves_are_a_conflict() -> None:
    answer = zones("a").pre_filter(make(NodeAffinity), requiring(named("a", "b"), named("b", "c")))
    assert answer == unresolvable("pod affinity terms conflict")


def test_a_pod_that_requires_nothing_skips_the_filter() -> None:
    assert zones("a").pre_filter(make(NodeAffinity), preferring((1, named("a")))).code is Code.SKIP


# ---- score


def test_weights_of_matching_preferences_add_up() -> None:
    pod = preferring(
        (3, term(expression("zone", "In", "a"))),
        (1, term(expression("zone", "NotIn", "b"))),
        (50, term()),  # an empty preference matches nothing
        (0, term(expression("zone", "Like", "a"))),  # nobody reads a preference without weight
    )
    plugin, cluster = make(NodeAffinity), zones("b", "c", "a")
    raw = cluster.score(plugin, pod)
    assert raw == [0, 1, 4]
    assert cluster.normalize(plugin, [0, 1, 3]) == [0, 33, 100]


def test_the_profiles_preferences_count_for_every_pod() -> None:
    preference = {"weight": 2, "preference": {"matchExpressions": [expression("zone", "In", "a")]}}
    plugin = added(preferredDuringSchedulingIgnoredDuringExecution=[preference])
    assert zones("a", "b").score(plugin, make_pod()) == [2, 0]
    pod = preferring((5, term(expression("zone", "Exists"))))
    assert zones("a", "b").score(plugin, pod) == [7, 5]


def test_scoring_is_skipped_without_preferences() -> None:
    assert zones("a").score(make(NodeAffinity), requiring(named("a"))) is None
    assert zones("a").score(make(NodeAffinity), preferring()) == [0]  # an empty list is not nothing


def test_a_preference_that_does_not_parse_is_an_error() -> None:
    cluster = zones("a")
    pod = cluster.info(preferring((1, term(expression("zone", "Gt", "many")))))
    status = make(NodeAffinity).pre_score(EngineState(), pod, cluster.nodes)
    assert status is not None
    assert status.code is Code.ERROR
    assert "many" in status.message


# ---- events


@pytest.mark.parametrize(
    ("old", "new", "queued"),
    [
        (None, {"zone": "a"}, True),
        (None, {"zone": "b"}, False),
        ({"zone": "b"}, {"zone": "a"}, True),
        ({"zone": "a"}, {"zone": "a", "other": "x"}, False),
        ({"zone": "a"}, {"zone": "b"}, False),
    ],
)
def test_a_node_that_came_to_match_wakes_pods(old: Any, new: Any, queued: bool) -> None:
    before = None if old is None else make_node("n", labels=old)
    event = NODE_ADD if old is None else NODE_LABEL
    for pod in (make_pod(nodeSelector={"zone": "a"}), requiring(term(expression("zone", "In", "a")))):
        assert hint(make(NodeAffinity), event, pod, before, make_node("n", labels=new)) is queued


def test_a_node_outside_the_profiles_affinity_wakes_nobody() -> None:
    terms = [{"matchExpressions": [expression("zone", "In", "a")]}]
    plugin = added(requiredDuringSchedulingIgnoredDuringExecution={"nodeSelectorTerms": terms})
    assert not hint(plugin, NODE_ADD, make_pod(), None, make_node("n", labels={"zone": "b"}))
    assert hint(plugin, NODE_ADD, make_pod(), None, make_node("n", labels={"zone": "a"}))


def test_a_term_nobody_can_read_may_mean_any_node() -> None:
    unreadable = requiring(term(expression("zone", "Gt", "many")))
    assert hint(make(NodeAffinity), NODE_ADD, unreadable, None, make_node("n"))
