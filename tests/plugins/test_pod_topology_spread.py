from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mooring.api.meta import LabelSelector, ObjectMeta, OwnerReference
from mooring.api.objects import Pod, Taint, Toleration, TopologySpreadConstraint
from mooring.api.workloads import (
    ReplicaSet,
    ReplicaSetSpec,
    ReplicationController,
    ReplicationControllerSpec,
    Service,
    ServiceSpec,
    StatefulSet,
    StatefulSetSpec,
)
from mooring.framework.events import Action, ClusterEvent, Hint, Resource
from mooring.framework.status import SKIP, SKIP_SHAPE, Status
from mooring.plugins.args import PodTopologySpreadArgs
from mooring.plugins.pod_topology_spread.pod_topology_spread import PodTopologySpread
from tests.plugins.topology_kit import (
    HOSTNAME,
    ZONE,
    Bench,
    History,
    app,
    check_reuse,
    check_supposing,
    histories,
    make_node,
    make_pod,
    nodes,
    pods,
    spread_specs,
)

SKEWED = ("Unschedulable", "node(s) didn't match pod topology spread constraints")
UNLABELLED = (
    "UnschedulableAndUnresolvable",
    "node(s) didn't match pod topology spread constraints (missing required label)",
)
WEB = app("web")


def hard(key: str = ZONE, max_skew: int = 1, selector: LabelSelector | None = WEB, **more: Any) -> Any:
    return TopologySpreadConstraint(
        max_skew=max_skew,
        topology_key=key,
        when_unsatisfiable="DoNotSchedule",
        label_selector=selector,
        **more,
    )


def soft(key: str = ZONE, max_skew: int = 1, selector: LabelSelector | None = WEB, **more: Any) -> Any:
    return TopologySpreadConstraint(
        max_skew=max_skew,
        topology_key=key,
        when_unsatisfiable="ScheduleAnyway",
        label_selector=selector,
        **more,
    )


def spreading(*constraints: TopologySpreadConstraint, **more: Any) -> Pod:
    return make_pod("new", {"app": "web"}, topology_spread_constraints=list(constraints), **more)


def bench(args: PodTopologySpreadArgs | None = None) -> Bench[PodTopologySpread]:
    return Bench(PodTopologySpread, args or PodTopologySpreadArgs())


def zones(
    counts: dict[str, list[int]], args: PodTopologySpreadArgs | None = None
) -> Bench[PodTopologySpread]:
    """Nodes n1, n2, … in zones, each with so many pods labelled app=web."""
    made = bench(args)
    number = 0
    for zone, on_nodes in counts.items():
        for count in on_nodes:
            number += 1
            name = f"n{number}"
            made.add(make_node(name, {HOSTNAME: name, ZONE: zone}))
            made.add(*(make_pod(f"{name}-{i}", {"app": "web"}, on=name) for i in range(count)))
    return made


# ---- filter ---------------------------------------------------------------------------------------


def test_without_hard_constraints_it_skips() -> None:
    assert zones({"a": [1]}).refusals(spreading(soft())) is None
    assert zones({"a": [1]}).refusals(make_pod("new")) is None


@pytest.mark.parametrize(
    ("max_skew", "refused"),
    [(1, ["n1", "n2", "n3"]), (2, ["n1", "n2"]), (3, [])],
)
def test_a_domain_must_not_be_ahead_of_the_smallest_by_more_than_max_skew(
    max_skew: int, refused: list[str]
) -> None:
    cluster = zones({"a": [1, 1], "b": [1], "c": [0]})
    assert cluster.refusals(spreading(hard(max_skew=max_skew))) == dict.fromkeys(refused, SKEWED)


def test_the_pod_counts_itself_only_where_the_selector_matches_it() -> None:
    cluster = zones({"a": [1], "b": [0]})
    stranger = make_pod("new", {"app": "db"}, topology_spread_constraints=[hard()])
    assert cluster.refusals(stranger) == {}
    assert cluster.refusals(spreading(hard())) == {"n1": SKEWED}


def test_a_node_without_the_key_is_unresolvable_and_not_counted_for_any_constraint() -> None:
    cluster = zones({"a": [1], "b": [1]})
    cluster.add(make_node("bare", {HOSTNAME: "bare"}))
    assert cluster.refusals(spreading(hard(), hard(HOSTNAME, 1))) == {"bare": UNLABELLED}
    # For the hostname alone it is a domain with no pods, which puts the others ahead.
    assert cluster.refusals(spreading(hard(HOSTNAME))) == {"n1": SKEWED, "n2": SKEWED}


def test_the_first_constraint_that_fails_gives_the_reason() -> None:
    cluster = zones({"a": [2], "b": [0]})
    cluster.add(make_node("rackless", {HOSTNAME: "x", ZONE: "a"}))
    for name in ("n1", "n2"):
        old = cluster.cluster.node(name)
        assert old is not None
        cluster.add(make_node(name, {**old.labels, "rack": name}))
    # rackless is not counted, but as a node of zone a it fails the zone before its missing rack is seen.
    assert cluster.refusals(spreading(hard(), hard("rack"))) == {"n1": SKEWED, "rackless": SKEWED}
    assert cluster.refusals(spreading(hard("rack"), hard())) == {"n1": SKEWED, "rackless": UNLABELLED}


@pytest.mark.parametrize(("min_domains", "refused"), [(None, False), (2, False), (3, True)])
def test_with_too_few_domains_the_smallest_counts_as_empty(min_domains: int | None, refused: bool) -> None:
    cluster = zones({"a": [1], "b": [1]})
    expected = {"n1": SKEWED, "n2": SKEWED} if refused else {}
    assert cluster.refusals(spreading(hard(min_domains=min_domains))) == expected


def test_only_running_pods_of_the_namespace_count() -> None:
    cluster = zones({"a": [0], "b": [0]})
    cluster.add(make_pod("x", {"app": "web"}, on="n1", namespace="other"))
    cluster.add(make_pod("y", {"app": "web"}, on="n1", deleted=True))
    assert cluster.refusals(spreading(hard())) == {}
    cluster.add(make_pod("z", {"app": "web"}, on="n1"))
    assert cluster.refusals(spreading(hard())) == {"n1": SKEWED}


def test_an_empty_selector_counts_no_pod_but_the_new_one() -> None:
    cluster = zones({"a": [3], "b": [0]})
    assert cluster.refusals(spreading(hard(selector=LabelSelector()))) == {}
    cluster = zones({"a": [0]})
    assert cluster.refusals(spreading(hard(selector=LabelSelector(), min_domains=2, max_skew=1))) == {}
    # With no selector at all the pod does not match itself either.
    assert zones({"a": [3], "b": [0]}).refusals(spreading(hard(selector=None))) == {}


def test_match_label_keys_narrow_the_selector() -> None:
    cluster = zones({"a": [1], "b": [0]})
    versioned = make_pod(
        "new",
        {"app": "web", "version": "2"},
        topology_spread_constraints=[hard(match_label_keys=["version", "absent"])],
    )
    assert cluster.refusals(versioned) == {}
    cluster.add(make_pod("v2", {"app": "web", "version": "2"}, on="n1"))
    assert cluster.refusals(versioned) == {"n1": SKEWED}


class TestInclusionPolicies:
    def test_nodes_the_pod_cannot_select_are_no_domains_unless_ignored(self) -> None:
        cluster = zones({"a": [1], "b": [0]})
        picky = {"node_selector": {ZONE: "a"}}
        assert cluster.refusals(spreading(hard(), **picky)) == {}
        ignoring = spreading(hard(node_affinity_policy="Ignore"), **picky)
        assert cluster.refusals(ignoring) == {"n1": SKEWED}

    def test_tainted_nodes_are_domains_unless_honoured(self) -> None:
        cluster = zones({"a": [1]})
        cluster.add(make_node("tainted", {ZONE: "b"}, [Taint(key="t", effect="NoSchedule")]))
        assert cluster.refusals(spreading(hard())) == {"n1": SKEWED}
        honouring = hard(node_taints_policy="Honor")
        assert cluster.refusals(spreading(honouring)) == {}
        tolerating = spreading(honouring, tolerations=[Toleration(key="t", operator="Exists")])
        assert cluster.refusals(tolerating) == {"n1": SKEWED}

    def test_a_node_that_does_not_count_is_still_checked(self) -> None:
        cluster = zones({"a": [2], "b": [0], "c": [0]})
        cluster.add(make_node("extra", {HOSTNAME: "extra", ZONE: "a"}))
        pod = spreading(hard(max_skew=1), node_selector={HOSTNAME: "n1"})
        # Only n1 counts: its zone has 2 pods and is the smallest; the others' zones do not exist.
        assert cluster.refusals(pod) == {}
        strict = spreading(hard(max_skew=1, min_domains=2), node_selector={HOSTNAME: "n1"})
        assert cluster.refusals(strict) == {"n1": SKEWED, "extra": SKEWED}


class TestSupposing:
    """Pods that would be there or not be there."""

    def test_a_removed_pod_leaves_its_domain(self) -> None:
        cluster = zones({"a": [1], "b": [0]})
        (pod,) = [p for p in cluster.cluster.pods() if p.node_name == "n1"]
        without = cluster.supposing("n1", removed=[pod])
        assert cluster.refusals(spreading(hard()), nodes=without) == {}
        assert cluster.refusals(spreading(hard())) == {"n1": SKEWED}

    def test_an_added_pod_can_raise_the_smallest_domain(self) -> None:
        cluster = zones({"a": [1], "b": [0]})
        extra = cluster.info(make_pod("x", {"app": "web"}))
        # The row's own domain is no longer the smallest: a's count is.
        assert cluster.refusals(spreading(hard()), nodes=cluster.supposing("n2", added=[extra])) == {}
        twice = cluster.supposing("n2", added=[extra, cluster.info(make_pod("y", {"app": "web"}))])
        assert cluster.refusals(spreading(hard()), nodes=twice) == {"n2": SKEWED}

    def test_a_terminating_pod_leaves_though_it_was_not_counted(self) -> None:
        cluster = zones({"a": [2], "b": [2]})
        cluster.add(make_pod("going", {"app": "web"}, on="n1", deleted=True))
        going = cluster.cluster.placed("default/going")
        assert going is not None
        without = cluster.supposing("n1", removed=[going])
        assert cluster.refusals(spreading(hard()), nodes=without) == {}
        other = cluster.info(make_pod("x", {"app": "web"}))
        more = cluster.supposing("n1", added=[other])
        assert cluster.refusals(spreading(hard()), nodes=more) == {"n1": SKEWED}

    def test_with_an_empty_selector_every_move_counts(self) -> None:
        cluster = zones({"a": [0], "b": [0]})
        other = cluster.info(make_pod("x", {"app": "db"}))
        pod = spreading(hard(selector=LabelSelector()))
        assert cluster.refusals(pod, nodes=cluster.supposing("n1", added=[other])) == {"n1": SKEWED}

    @pytest.mark.slow
    @settings(max_examples=100, deadline=None)
    @given(st.data(), pods(spread_specs, "new"))
    def test_it_is_as_if_it_were_done(self, data: st.DataObject, pod: Pod) -> None:
        selectors = [c.label_selector for c in pod.spec.topology_spread_constraints]
        assume(LabelSelector() not in selectors)  # which counts pods that move and no others
        made = bench()
        made.add(*(data.draw(nodes(f"n{i}")) for i in range(4)))
        check_supposing(made, pod, data, spread_specs)


# ---- score ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_skew", "counts", "raw", "normalized"),
    [
        (1, [0, 1, 2, 3], [0, 2, 4, 5], [100, 60, 20, 0]),
        (2, [2, 1, 0, 3], [5, 3, 1, 6], [33, 66, 100, 16]),
        (3, [4, 3, 2, 1], [9, 7, 6, 4], [44, 66, 77, 100]),
        (1, [0, 0, 0, 0], [0, 0, 0, 0], [100, 100, 100, 100]),
    ],
)
def test_fewer_pods_on_the_node_are_better(
    max_skew: int, counts: list[int], raw: list[int], normalized: list[int]
) -> None:
    cluster = zones({"a": counts})
    assert cluster.scores(spreading(soft(HOSTNAME, max_skew))) == (raw, normalized)


def test_counts_in_few_domains_weigh_more_where_more_domains_are_feasible() -> None:
    cluster = zones({"a": [2, 1], "b": [0], "c": [1]})
    # ln(3 + 2) = 1.61 for three feasible zones, ln(2 + 2) = 1.39 for two.
    assert cluster.scores(spreading(soft())) == ([5, 5, 0, 2], [0, 0, 100, 60])
    assert cluster.scores(spreading(soft()), ["n4", "n1"]) == ([1, 4], [100, 25])


def test_pods_in_a_zone_count_on_nodes_that_are_not_feasible_but_not_where_policies_exclude_them() -> None:
    cluster = zones({"a": [0], "b": [0]})
    cluster.add(make_node("full", {ZONE: "a"}, [Taint(key="t", effect="NoExecute")]))
    cluster.add(*(make_pod(f"x{i}", {"app": "web"}, on="full") for i in range(3)))
    feasible = ["n1", "n2"]
    assert cluster.scores(spreading(soft()), feasible) == ([4, 0], [0, 100])
    honouring = spreading(soft(node_taints_policy="Honor"))
    assert cluster.scores(honouring, feasible) == ([0, 0], [100, 100])


def test_nodes_that_lack_a_key_are_ignored_and_score_zero() -> None:
    cluster = zones({"a": [1], "b": [0]})
    cluster.add(make_node("bare", {}))
    assert cluster.scores(spreading(soft())) == ([1, 0, 0], [0, 100, 0])
    assert cluster.scores(spreading(soft()), ["bare"]) == ([0], [0])


class TestDefaultConstraints:
    SERVICE = Service(
        metadata=ObjectMeta(name="web", namespace="default"), spec=ServiceSpec(selector={"app": "web"})
    )
    POD = make_pod("new", {"app": "web", "extra": "1"})

    def test_system_defaults_spread_what_a_service_selects(self) -> None:
        cluster = zones({"a": [2, 1], "b": [0, 1]})
        assert cluster.scores(self.POD) is None
        cluster.add(self.SERVICE)
        assert cluster.scores(self.POD) == ([14, 12, 7, 9], [50, 64, 100, 85])
        cluster.objects.remove(Service, "default/web")
        assert cluster.scores(self.POD) is None

    def test_services_of_other_namespaces_or_pods_do_not_count(self) -> None:
        cluster = zones({"a": [1], "b": [0]})
        cluster.add(
            Service(
                metadata=ObjectMeta(name="s", namespace="other"), spec=ServiceSpec(selector={"app": "web"})
            ),
            Service(
                metadata=ObjectMeta(name="t", namespace="default"), spec=ServiceSpec(selector={"app": "db"})
            ),
            Service(metadata=ObjectMeta(name="u", namespace="default")),
            Service(metadata=ObjectMeta(name="v", namespace="default"), spec=ServiceSpec(selector={})),
        )
        assert cluster.scores(self.POD) is None

    def test_own_constraints_of_any_kind_replace_the_defaults(self) -> None:
        cluster = zones({"a": [1], "b": [0]})
        cluster.add(self.SERVICE)
        assert cluster.scores(spreading(hard())) is None

    @pytest.mark.parametrize(
        ("api_version", "owner"),
        [
            ("v1", ReplicationController(spec=ReplicationControllerSpec(selector={"app": "web"}))),
            ("apps/v1", ReplicaSet(spec=ReplicaSetSpec(selector=app("web")))),
            ("apps/v1", StatefulSet(spec=StatefulSetSpec(selector=app("web")))),
        ],
    )
    def test_the_controller_selects_too(self, api_version: str, owner: Any) -> None:
        cluster = zones({"a": [2, 1], "b": [0, 1]})
        kind = type(owner).__name__
        pod = make_pod("new", {"app": "web"})
        pod.metadata.owner_references = [
            OwnerReference(api_version=api_version, kind=kind, name="own", controller=True)
        ]
        assert cluster.scores(pod) is None
        owner.metadata = ObjectMeta(name="own", namespace="default")
        cluster.add(owner)
        assert cluster.scores(pod) == ([14, 12, 7, 9], [50, 64, 100, 85])

    def test_system_defaults_do_not_need_a_zone(self) -> None:
        cluster = zones({"a": [1]})
        cluster.add(self.SERVICE, make_node("bare"))
        cluster.add(make_pod("x", {"app": "web"}, on="bare"))
        # Two domains of zones, one of them "": the bare node gets its hostname's part alone.
        scores = cluster.scores(self.POD)
        assert scores is not None
        assert scores[0] == [9, 3]

    def test_nodes_without_and_with_an_empty_zone_are_one_domain(self) -> None:
        cluster = bench()
        cluster.add(self.SERVICE, make_node("n1"), make_node("n2", {HOSTNAME: "n2", ZONE: ""}))
        cluster.add(make_pod("x", {"app": "web"}, on="n1"))
        scores = cluster.scores(self.POD)
        assert scores is not None
        # n1: 1·ln 4 + 2 = 3.39; n2: 0·ln 4 + 2, and 1·ln 3 + 4 for the pod on n1.
        assert scores[0] == [3, 7]

    def test_a_list_can_be_hard_and_requires_all_keys(self) -> None:
        args = PodTopologySpreadArgs(
            defaulting_type="List",
            default_constraints=[
                TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule"),
                TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway"),
            ],
        )
        cluster = zones({"a": [1], "b": [0]}, args)
        cluster.add(make_node("bare"))
        assert cluster.refusals(self.POD) is None
        assert cluster.scores(self.POD) is None
        cluster.add(self.SERVICE)
        assert cluster.refusals(self.POD) == {"n1": SKEWED, "bare": UNLABELLED}
        assert cluster.scores(self.POD) == ([1, 0, 0], [0, 100, 0])

    def test_an_empty_list_turns_defaults_off(self) -> None:
        cluster = zones({"a": [1]}, PodTopologySpreadArgs(defaulting_type="List"))
        cluster.add(self.SERVICE)
        assert cluster.scores(self.POD) is None


# ---- reuse ----------------------------------------------------------------------------------------


class TestReuse:
    def test_the_same_object_says_that_nothing_changed(self) -> None:
        cluster = zones({"a": [1], "b": [0]})
        first = cluster.verdicts(spreading(hard(max_skew=2)))
        assert cluster.verdicts(spreading(hard(max_skew=2))) is first
        cluster.add(make_pod("db", {"app": "db"}, on="n1"))
        assert cluster.verdicts(spreading(hard(max_skew=2))) is first
        cluster.add(make_pod("web", {"app": "web"}, on="n1"))
        later = cluster.verdicts(spreading(hard(max_skew=2)))
        assert later is not first
        assert later is not None
        assert later.codes.tolist() == [2, 0]

    @pytest.mark.parametrize("constraint", [soft(ZONE), soft(HOSTNAME)])
    def test_scores_stay_the_same_object_too(self, constraint: TopologySpreadConstraint) -> None:
        cluster = zones({"a": [1], "b": [0]})
        info = cluster.info(spreading(constraint))
        state = cluster.state(info)
        view = cluster.cluster.nodes

        def ask() -> Any:
            assert cluster.plugin.pre_score(state, info, view) is None
            raw = cluster.plugin.score_nodes(state, info, view)
            return raw, cluster.plugin.score_groups(state, info, view)

        first, second = ask(), ask()
        assert first[0] is second[0]
        assert first[1] is second[1]
        kept = first[0].copy()
        cluster.add(make_pod("web", {"app": "web"}, on="n1"))
        assert ask()[0].tolist() != kept.tolist()
        np.testing.assert_array_equal(first[0], kept)

    @settings(max_examples=60, deadline=None)
    @given(histories(spread_specs))
    def test_a_memory_never_changes_an_answer(self, history: History) -> None:
        check_reuse(bench(), history)


# ---- queueing hints -------------------------------------------------------------------------------


class TestHints:
    def hints(self, action: Action, resource: str, pod: Pod, old: Any, new: Any) -> Hint:
        made = bench()
        event = ClusterEvent(resource, action)
        (hint,) = [h.hint for h in made.plugin.events_to_register() if h.event.matches(event)]
        assert hint is not None
        as_seen = [made.info(each) if isinstance(each, Pod) else each for each in (old, new)]
        return hint(made.info(pod), *as_seen)

    WAITING = spreading(hard(), uid="waiting")
    MATCHING = make_pod("x", {"app": "web"}, on="n1")

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            (None, MATCHING, Hint.QUEUE),
            (MATCHING, None, Hint.QUEUE),
            (None, make_pod("x", {"app": "db"}, on="n1"), Hint.SKIP),
            (None, make_pod("x", {"app": "web"}, on="n1", namespace="other"), Hint.SKIP),
            (None, make_pod("x", {"app": "web"}), Hint.SKIP),
            (make_pod("x", {"app": "web"}, nominated="n1"), None, Hint.QUEUE),
        ],
    )
    def test_pods_that_come_and_go(self, old: Pod | None, new: Pod | None, expected: Hint) -> None:
        action = Action.ADD if old is None else Action.DELETE
        assert self.hints(action, Resource.ASSIGNED_POD, self.WAITING, old, new) is expected

    @pytest.mark.parametrize(
        ("labels", "expected"),
        [({"app": "db"}, Hint.QUEUE), ({}, Hint.QUEUE), ({"app": "web", "more": "1"}, Hint.SKIP)],
    )
    def test_labels_that_change_whether_a_pod_counts(self, labels: dict[str, str], expected: Hint) -> None:
        new = make_pod("x", labels, on="n1")
        hint = self.hints(Action.UPDATE_POD_LABEL, Resource.ASSIGNED_POD, self.WAITING, self.MATCHING, new)
        assert hint is expected

    @pytest.mark.parametrize(("policy", "expected"), [("Honor", Hint.QUEUE), (None, Hint.SKIP)])
    def test_own_tolerations_matter_where_taints_do(self, policy: str | None, expected: Hint) -> None:
        constraint = hard(node_taints_policy=policy)
        old = spreading(constraint, uid="waiting")
        new = spreading(constraint, uid="waiting", tolerations=[Toleration(operator="Exists")])
        action = Action.UPDATE_POD_TOLERATION
        assert self.hints(action, Resource.UNSCHEDULABLE_POD, new, old, new) is expected

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            (None, make_node("n", {ZONE: "a"}), Hint.QUEUE),
            (None, make_node("n"), Hint.SKIP),
            (make_node("n", {ZONE: "a"}), None, Hint.QUEUE),
            (make_node("n"), None, Hint.SKIP),
            (make_node("n"), make_node("n", {ZONE: "a"}), Hint.QUEUE),
            (make_node("n", {ZONE: "a"}), make_node("n"), Hint.QUEUE),
            (make_node("n", {ZONE: "a"}), make_node("n", {ZONE: "b"}), Hint.QUEUE),
            (make_node("n", {ZONE: "a"}), make_node("n", {ZONE: "a", "x": "1"}), Hint.SKIP),
            (make_node("n", {ZONE: "a"}), make_node("n", {ZONE: "a"}, [Taint(key="t")]), Hint.QUEUE),
            (make_node("n"), make_node("n", None, [Taint(key="t")]), Hint.SKIP),
        ],
    )
    def test_nodes(self, old: Any, new: Any, expected: Hint) -> None:
        action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE_NODE_LABEL
        assert self.hints(action, Resource.NODE, self.WAITING, old, new) is expected


# ---- skipping for good ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "before_filter", "before_score"),
    [
        (make_pod("plain"), SKIP_SHAPE, SKIP),  # a Service may come
        (spreading(hard()), None, SKIP_SHAPE),
        (spreading(soft()), SKIP_SHAPE, None),
    ],
)
def test_it_is_not_asked_again_where_the_spec_alone_says_skip(
    pod: Pod, before_filter: Status | None, before_score: Status | None
) -> None:
    made = zones({"a": [0]})
    info = made.info(pod)
    state = made.state(info)
    assert made.plugin.pre_filter(state, info, made.cluster.nodes) is before_filter
    assert made.plugin.pre_score(state, info, made.cluster.nodes) is before_score


def test_a_list_of_soft_defaults_never_filters() -> None:
    only_soft = TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway")
    args = PodTopologySpreadArgs(defaulting_type="List", default_constraints=[only_soft])
    made = zones({"a": [0]}, args)
    info = made.info(make_pod("plain"))
    assert made.plugin.pre_filter(made.state(info), info, made.cluster.nodes) is SKIP_SHAPE
    assert made.plugin.pre_score(made.state(info), info, made.cluster.nodes) is SKIP
