"""What changed in a pod or node, and which plugins hear of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from mooring.api.meta import Condition, ObjectMeta
from mooring.api.objects import (
    ContainerImage,
    Node,
    NodeSpec,
    NodeStatus,
    PodExtendedResourceClaimStatus,
    PodResourceClaimStatus,
    PodStatus,
    Taint,
)
from mooring.core.event_map import (
    ANY_EVENT,
    EXTENDER,
    UNSCHEDULABLE_TIMEOUT,
    events_of,
    node_update_events,
    pod_update_events,
    registrations,
    with_node_taint,
)
from mooring.framework.events import Action, ClusterEvent, EventHint, Hint, Resource, requeue_on
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status
from tests.core.queue_kit import info, make_pod


def actions(events: Iterable[ClusterEvent]) -> list[str]:
    return [event.name for event in events]


# ---- pods


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {}, ["Update"]),
        ({}, {"labels": {"a": "b"}}, ["UpdatePodLabel"]),
        ({"cpu": "2"}, {"cpu": "1500m"}, ["UpdatePodScaleDown"]),
        ({"cpu": "2"}, {}, ["UpdatePodScaleDown"]),
        ({"cpu": "1"}, {"cpu": "2"}, ["Update"]),
        ({"cpu": "1"}, {"cpu": "1000m"}, ["Update"]),
        ({"gates": ["a", "b"]}, {"gates": []}, ["UpdatePodSchedulingGatesEliminated"]),
        ({"gates": ["a", "b"]}, {"gates": ["a"]}, ["Update"]),
        ({}, {"tolerations": 1}, ["UpdatePodToleration"]),
        (
            {"cpu": "2", "gates": ["a"]},
            {"cpu": "1", "labels": {"a": "b"}, "tolerations": 2},
            [
                "UpdatePodLabel",
                "UpdatePodScaleDown",
                "UpdatePodSchedulingGatesEliminated",
                "UpdatePodToleration",
            ],
        ),
    ],
)
def test_pod_updates_are_told_apart(
    before: dict[str, Any], after: dict[str, Any], expected: list[str]
) -> None:
    pending = pod_update_events(make_pod("p", **before), make_pod("p", **after))
    assert actions(pending) == ["UnschedulablePod" + each for each in expected]
    assigned = pod_update_events(make_pod("p", node="n", **before), make_pod("p", node="n", **after))
    assert actions(assigned) == ["AssignedPod" + each for each in expected]


def test_the_event_is_of_an_assigned_pod_as_soon_as_the_new_object_has_a_node() -> None:
    events = pod_update_events(make_pod("p"), make_pod("p", node="n"))
    assert actions(events) == ["AssignedPodUpdate"]


@pytest.mark.parametrize(
    "status",
    [
        PodStatus(resource_claim_statuses=[PodResourceClaimStatus(name="a", resource_claim_name="b")]),
        PodStatus(extended_resource_claim_status=PodExtendedResourceClaimStatus(resource_claim_name="b")),
    ],
)
def test_generated_resource_claims_are_an_event(status: PodStatus) -> None:
    old = make_pod("p")
    bare = info(msgspec.structs.replace(old.pod, status=PodStatus()))
    new = info(msgspec.structs.replace(old.pod, status=status))
    assert actions(pod_update_events(bare, new)) == ["UnschedulablePodUpdatePodGeneratedResourceClaim"]
    assert actions(pod_update_events(new, new)) == ["UnschedulablePodUpdate"]


# ---- nodes


def node(
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    spec: NodeSpec | None = None,
    **status: Any,
) -> Node:
    meta = ObjectMeta(name="n", labels=labels or {}, annotations=annotations or {})
    return Node(metadata=meta, spec=spec or NodeSpec(), status=NodeStatus(**status))


def ready(status: str, heartbeat: str = "") -> list[Condition]:
    return [Condition(type="Ready", status=status, last_probe_time=heartbeat)]


CORDONED = NodeSpec(unschedulable=True)
TAINTED = NodeSpec(taints=[Taint(key="k", effect="NoSchedule")])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (node(), node(), []),
        (node(spec=CORDONED), node(), ["UpdateNodeTaint"]),
        (node(), node(spec=CORDONED), []),
        (node(allocatable={"cpu": "1"}), node(allocatable={"cpu": "2"}), ["UpdateNodeAllocatable"]),
        (node(allocatable={"cpu": "1"}), node(allocatable={"cpu": "1000m"}), []),
        (node(allocatable={"cpu": "1"}), node(allocatable={"cpu": "1", "gpu": 0}), ["UpdateNodeAllocatable"]),
        (node(allocatable={"cpu": "1"}), node(allocatable={"cpu": "one"}), ["UpdateNodeAllocatable"]),
        (node(capacity={"cpu": "1"}), node(capacity={"cpu": "2"}), []),
        (node(), node(labels={"a": "b"}), ["UpdateNodeLabel"]),
        (node(), node(spec=TAINTED), ["UpdateNodeTaint"]),
        (node(spec=CORDONED), node(spec=TAINTED), ["UpdateNodeTaint", "UpdateNodeTaint"]),
        (node(conditions=ready("True")), node(conditions=ready("False")), ["UpdateNodeCondition"]),
        (node(conditions=ready("True", "t1")), node(conditions=ready("True", "t2")), []),
        (node(), node(annotations={"a": "b"}), ["UpdateNodeAnnotation"]),
        (node(), node(declared_features=["F"]), ["UpdateNodeDeclaredFeature"]),
        (node(), node(images=[ContainerImage(names=["i"])]), []),
        (
            node(spec=CORDONED),
            node(
                labels={"a": "b"},
                annotations={"a": "b"},
                allocatable={"cpu": 1},
                conditions=ready("True"),
                declared_features=["F"],
            ),
            [
                "UpdateNodeTaint",
                "UpdateNodeAllocatable",
                "UpdateNodeLabel",
                "UpdateNodeCondition",
                "UpdateNodeAnnotation",
                "UpdateNodeDeclaredFeature",
            ],
        ),
    ],
)
def test_node_updates_are_told_apart(old: Node, new: Node, expected: list[str]) -> None:
    assert actions(node_update_events(old, new)) == ["Node" + each for each in expected]


# ---- registrations


def never(pod: PodInfo, old: object, new: object) -> Hint:
    return Hint.SKIP


def test_who_waits_for_nodes_also_hears_of_taints() -> None:
    added = with_node_taint([requeue_on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, never)])
    assert added[1:] == [EventHint(ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT))]


@pytest.mark.parametrize(
    "registered",
    [
        [requeue_on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, never)],
        [
            requeue_on(Resource.NODE, Action.ADD, never),
            requeue_on(Resource.NODE, Action.UPDATE_NODE_TAINT, never),
        ],
        [requeue_on(Resource.NODE, Action.ALL, never)],
        [requeue_on(Resource.NODE, Action.UPDATE_NODE_LABEL, never)],
        [requeue_on(Resource.POD, Action.ADD, never)],
        [],
    ],
)
def test_registrations_that_need_no_taint_rule_stay_as_they_are(registered: list[EventHint]) -> None:
    assert with_node_taint(registered) == registered
    assert with_node_taint(with_node_taint(registered)) == registered


class Silent(Plugin):
    name = "Silent"

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return None


class Scorer(Plugin):
    name = "Scorer"

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 0


class Deaf(Silent):
    name = "Deaf"

    def events_to_register(self) -> Iterable[EventHint]:
        return ()


class Listener(Silent):
    name = "Listener"

    def events_to_register(self) -> Iterable[EventHint]:
        yield requeue_on(Resource.NODE, Action.ADD)


def make(kind: type[Plugin]) -> Plugin:
    return kind(None, None)  # type: ignore[arg-type]


def test_a_plugin_that_can_refuse_but_names_no_events_hears_of_all_kinds() -> None:
    assert events_of(make(Silent)) == list(ANY_EVENT)
    assert events_of(make(Scorer)) == []
    assert events_of(make(Deaf)) == []
    assert events_of(make(Listener)) == [requeue_on(Resource.NODE, Action.ADD)]


@pytest.mark.parametrize(
    "point", ["pre_enqueue", "pre_filter", "filter_nodes", "reserve", "unreserve", "permit"]
)
def test_each_refusing_extension_point_counts(point: str) -> None:
    kind = type("Own", (Plugin,), {"name": "Own", point: lambda self, *args: None})
    assert events_of(make(kind)) == list(ANY_EVENT)


def test_extenders_count_as_one_more_plugin() -> None:
    plugins = [make(Listener), make(Scorer)]
    assert set(registrations(plugins)) == {"Listener", "Scorer"}
    assert registrations(plugins, extenders=True)[EXTENDER] == list(ANY_EVENT)


def test_any_event_covers_every_action_on_the_kinds_that_kube_scheduler_lists() -> None:
    for event in (
        ClusterEvent(Resource.ASSIGNED_POD, Action.ADD),
        ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE),
        ClusterEvent(Resource.NODE, Action.UPDATE_NODE_ANNOTATION),
        ClusterEvent(Resource.CSI_NODE, Action.DELETE),
        ClusterEvent(Resource.DEVICE_CLASS, Action.UPDATE),
    ):
        assert any(each.event.matches(event) for each in ANY_EVENT), event
    for resource in (Resource.VOLUME_ATTACHMENT, Resource.RESOURCE_SLICE):
        event = ClusterEvent(resource, Action.ADD)
        assert not any(each.event.matches(event) for each in ANY_EVENT), event
    assert not any(each.event.matches(UNSCHEDULABLE_TIMEOUT) for each in ANY_EVENT)
