from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from mooring.api.objects import Affinity, Pod, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from mooring.api.workloads import Namespace
from mooring.framework.events import Action, ClusterEvent, Hint, Resource
from mooring.plugins.args import InterPodAffinityArgs
from mooring.plugins.inter_pod_affinity.inter_pod_affinity import InterPodAffinity
from tests.plugins.topology_kit import (
    HOSTNAME,
    ZONE,
    Bench,
    History,
    affinity_specs,
    app,
    check_reuse,
    check_supposing,
    histories,
    make_node,
    make_pod,
    nodes,
    pods,
)

AFFINITY = ("UnschedulableAndUnresolvable", "node(s) didn't match pod affinity rules")
ANTI_AFFINITY = ("Unschedulable", "node(s) didn't match pod anti-affinity rules")
EXISTING = ("Unschedulable", "node(s) didn't satisfy existing pods anti-affinity rules")


def term(name: str = "web", key: str = ZONE, **more: Any) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=key, label_selector=app(name), **more)


def near(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(pod_affinity=PodAffinity(required=list(terms)))


def away(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(pod_anti_affinity=PodAffinity(required=list(terms)))


def weighted(*terms: tuple[int, PodAffinityTerm]) -> PodAffinity:
    return PodAffinity(preferred=[WeightedPodAffinityTerm(weight=w, pod_affinity_term=t) for w, t in terms])


def likes(*terms: tuple[int, PodAffinityTerm]) -> Affinity:
    return Affinity(pod_affinity=weighted(*terms))


def dislikes(*terms: tuple[int, PodAffinityTerm]) -> Affinity:
    return Affinity(pod_anti_affinity=weighted(*terms))


def bench(**args: Any) -> Bench[InterPodAffinity]:
    """Nodes a1 and a2 in zone a, b1 in zone b, and bare without a zone."""
    made = Bench(InterPodAffinity, InterPodAffinityArgs(**args))
    for name in ("a1", "a2", "b1"):
        made.add(make_node(name, {HOSTNAME: name, ZONE: name[0]}))
    made.add(make_node("bare"))
    return made


def web(name: str, on: str, **more: Any) -> Pod:
    return make_pod(name, {"app": "web"}, on=on, **more)


def asking(affinity: Affinity | None, name: str = "db", **more: Any) -> Pod:
    return make_pod("new", {"app": name}, affinity=affinity, **more)


# ---- filter ---------------------------------------------------------------------------------------


def test_without_terms_anywhere_it_skips() -> None:
    cluster = bench()
    cluster.add(web("x", "a1"))
    assert cluster.refusals(asking(None)) is None
    assert cluster.refusals(asking(likes((1, term())))) is None


class TestAffinity:
    def test_the_domain_must_have_a_matching_pod(self) -> None:
        cluster = bench()
        cluster.add(web("x", "a1"))
        assert cluster.refusals(asking(near(term()))) == {"b1": AFFINITY, "bare": AFFINITY}
        assert cluster.refusals(asking(near(term(key=HOSTNAME)))) == dict.fromkeys(
            ("a2", "b1", "bare"), AFFINITY
        )

    def test_one_pod_must_match_all_terms_each_with_its_own_domain(self) -> None:
        cluster = bench()
        both = PodAffinityTerm(
            topology_key=HOSTNAME, label_selector=LabelSelector(match_labels={"track": "stable"})
        )
        cluster.add(web("x", "a1"), make_pod("y", {"track": "stable"}, on="a2"))
        everywhere = dict.fromkeys(("a1", "a2", "b1", "bare"), AFFINITY)
        assert cluster.refusals(asking(near(term(), both))) == everywhere
        cluster.add(make_pod("z", {"app": "web", "track": "stable"}, on="a2"))
        assert cluster.refusals(asking(near(term(), both))) == dict.fromkeys(("a1", "b1", "bare"), AFFINITY)

    def test_a_terminating_pod_counts(self) -> None:
        cluster = bench()
        cluster.add(web("x", "a1", deleted=True))
        assert cluster.refusals(asking(near(term()))) == {"b1": AFFINITY, "bare": AFFINITY}

    def test_the_first_of_its_kind_may_go_where_the_keys_are(self) -> None:
        cluster = bench()
        first = asking(near(term()), "web")
        assert cluster.refusals(first) == {"bare": AFFINITY}
        # A pod on a node without the key is in no domain, so it does not end the exception.
        cluster.add(web("x", "bare"))
        assert cluster.refusals(first) == {"bare": AFFINITY}
        cluster.add(web("y", "b1"))
        assert cluster.refusals(first) == dict.fromkeys(("a1", "a2", "bare"), AFFINITY)

    def test_a_pod_that_does_not_match_itself_is_never_first(self) -> None:
        everywhere = dict.fromkeys(("a1", "a2", "b1", "bare"), AFFINITY)
        assert bench().refusals(asking(near(term()))) == everywhere
        assert bench().refusals(asking(near(term(), term("db")))) == everywhere

    def test_no_selector_matches_nothing_and_an_empty_one_everything(self) -> None:
        cluster = bench()
        cluster.add(web("x", "a1"))
        nothing = PodAffinityTerm(topology_key=ZONE)
        assert cluster.refusals(asking(away(nothing))) == {}
        everything = PodAffinityTerm(topology_key=ZONE, label_selector=LabelSelector())
        assert cluster.refusals(asking(away(everything))) == dict.fromkeys(("a1", "a2"), ANTI_AFFINITY)


class TestAntiAffinity:
    def test_any_matching_pod_in_the_domain_refuses(self) -> None:
        cluster = bench()
        cluster.add(web("x", "a1"), make_pod("y", {"app": "db"}, on="b1"))
        assert cluster.refusals(asking(away(term()))) == dict.fromkeys(("a1", "a2"), ANTI_AFFINITY)
        both = asking(away(term(), term("db", HOSTNAME)))
        assert cluster.refusals(both) == dict.fromkeys(("a1", "a2", "b1"), ANTI_AFFINITY)

    def test_affinity_is_checked_first_and_existing_pods_last(self) -> None:
        cluster = bench()
        cluster.add(web("x", "a1", affinity=away(term("db"))))
        contradictory = Affinity(
            pod_affinity=PodAffinity(required=[term()]), pod_anti_affinity=PodAffinity(required=[term()])
        )
        assert cluster.refusals(asking(contradictory)) == {
            "a1": ANTI_AFFINITY,
            "a2": ANTI_AFFINITY,
            "b1": AFFINITY,
            "bare": AFFINITY,
        }

    def test_pods_on_nodes_keep_others_away(self) -> None:
        cluster = bench()
        cluster.add(web("x", "a1", affinity=away(term("db"))))
        assert cluster.refusals(asking(None)) == dict.fromkeys(("a1", "a2"), EXISTING)
        assert cluster.refusals(asking(None, "cache")) is None
        cluster.cluster.remove_pod("default/x")
        assert cluster.refusals(asking(None)) is None

    def test_a_term_of_a_pod_on_a_node_without_the_key_holds_nowhere(self) -> None:
        cluster = bench()
        cluster.add(web("x", "bare", affinity=away(term("db"))))
        assert cluster.refusals(asking(None)) is None


class TestNamespaces:
    def test_terms_mean_the_pods_own_namespace_unless_they_say_otherwise(self) -> None:
        cluster = bench()
        cluster.add(web("x", "a1", namespace="other"))
        assert cluster.refusals(asking(away(term()))) == {}
        named = asking(away(term(namespaces=["other"])))
        assert cluster.refusals(named) == dict.fromkeys(("a1", "a2"), ANTI_AFFINITY)

    def test_a_selector_adds_the_namespaces_with_such_labels_now(self) -> None:
        cluster = bench()
        cluster.add(web("x", "a1", namespace="other"), web("y", "b1"))
        team = asking(away(term(namespace_selector=LabelSelector(match_labels={"team": "x"}))))
        assert cluster.refusals(team) == {}
        cluster.add(Namespace(metadata=ObjectMeta(name="other", labels={"team": "x"})))
        assert cluster.refusals(team) == dict.fromkeys(("a1", "a2"), ANTI_AFFINITY)
        cluster.add(Namespace(metadata=ObjectMeta(name="other")))
        assert cluster.refusals(team) == {}

    @pytest.mark.parametrize(
        "selector",
        [
            LabelSelector(),
            LabelSelector(match_expressions=[LabelSelectorRequirement(key="k", operator="DoesNotExist")]),
        ],
    )
    def test_a_selector_that_matches_no_labels_matches_every_namespace(self, selector: LabelSelector) -> None:
        cluster = bench()
        # Even one that has the label: the pod's own terms do not look at the namespace's labels.
        cluster.add(Namespace(metadata=ObjectMeta(name="other", labels={"k": "v"})))
        cluster.add(web("x", "a1", namespace="other"))
        pod = asking(away(term(namespace_selector=selector)))
        assert cluster.refusals(pod) == dict.fromkeys(("a1", "a2"), ANTI_AFFINITY)

    def test_terms_of_others_ask_for_the_labels_of_the_pods_namespace(self) -> None:
        cluster = bench()
        selector = LabelSelector(match_labels={"team": "x"})
        cluster.add(web("x", "a1", namespace="other", affinity=away(term("db", namespace_selector=selector))))
        assert cluster.refusals(asking(None)) is None
        cluster.add(Namespace(metadata=ObjectMeta(name="default", labels={"team": "x"})))
        assert cluster.refusals(asking(None)) == dict.fromkeys(("a1", "a2"), EXISTING)
        cluster.add(Namespace(metadata=ObjectMeta(name="default", labels={"team": "y"})))
        assert cluster.refusals(asking(None)) is None


class TestSupposing:
    """Pods that would be there or not be there."""

    def test_a_removed_pod_no_longer_refuses(self) -> None:
        cluster = bench()
        cluster.add(web("x", "a1", affinity=away(term("db"))))
        x = cluster.cluster.placed("default/x")
        assert x is not None
        without = cluster.supposing("a1", removed=[x])
        assert cluster.refusals(asking(None), nodes=without) == {}
        assert cluster.refusals(asking(away(term())), nodes=without) == {}

    def test_without_the_last_match_the_pod_may_be_first(self) -> None:
        cluster = bench()
        cluster.add(web("x", "b1"))
        x = cluster.cluster.placed("default/x")
        assert x is not None
        first = asking(near(term()), "web")
        assert cluster.refusals(first, nodes=cluster.supposing("b1", removed=[x])) == {}
        cluster.add(web("y", "a1"))
        assert cluster.refusals(first, nodes=cluster.supposing("b1", removed=[x])) == {"b1": AFFINITY}

    def test_an_added_pod_satisfies_or_refuses(self) -> None:
        cluster = bench()
        extra = cluster.info(make_pod("x", {"app": "web"}))
        assert cluster.refusals(asking(near(term())), nodes=cluster.supposing("b1", added=[extra])) == {}
        view = cluster.supposing("b1", added=[extra])
        assert cluster.refusals(asking(away(term())), nodes=view) == {"b1": ANTI_AFFINITY}
        lacking = cluster.supposing("bare", added=[extra])
        assert cluster.refusals(asking(near(term())), nodes=lacking) == {"bare": AFFINITY}

    def test_the_terms_of_an_added_pod_count(self) -> None:
        cluster = bench()
        nominated = cluster.info(make_pod("x", {"app": "web"}, affinity=away(term("db", HOSTNAME))))
        cluster.add(web("y", "b1", affinity=away(term("db"))))
        view = cluster.supposing("a1", added=[nominated])
        assert cluster.refusals(asking(None), nodes=view) == {"a1": EXISTING}

    @pytest.mark.slow
    @settings(max_examples=100, deadline=None)
    @given(st.data(), pods(affinity_specs, "new"))
    def test_it_is_as_if_it_were_done(self, data: st.DataObject, pod: Pod) -> None:
        made = Bench(InterPodAffinity, InterPodAffinityArgs())
        made.add(*(data.draw(nodes(f"n{i}")) for i in range(4)))
        check_supposing(made, pod, data, affinity_specs)


# ---- score ----------------------------------------------------------------------------------------


class TestScore:
    def test_preferences_add_up_by_domain(self) -> None:
        cluster = bench()
        cluster.add(web("x", "a1"), web("y", "a1"), make_pod("z", {"app": "db"}, on="b1"))
        mixed = Affinity(
            pod_affinity=weighted((10, term()), (1, term("web", HOSTNAME))),
            pod_anti_affinity=weighted((5, term("db"))),
        )
        # a1: 2·10 + 2·1, a2: 2·10, b1: −5, bare: nothing.
        assert cluster.scores(asking(mixed)) == ([22, 20, -5, 0], [100, 92, 0, 18])

    def test_the_lowest_is_0_and_the_highest_100_with_the_rest_cut_off(self) -> None:
        cluster = bench()
        cluster.add(web("x", "a1"), make_pod("z", {"app": "db"}, on="b1"))
        mixed = Affinity(pod_affinity=weighted((10, term())), pod_anti_affinity=weighted((5, term("db"))))
        assert cluster.scores(asking(mixed), ["b1", "bare", "a2"]) == ([-5, 0, 10], [0, 33, 100])
        assert cluster.scores(asking(mixed), ["a1", "a2"]) == ([10, 10], [0, 0])

    @pytest.mark.parametrize(
        ("affinity", "weight", "raw"),
        [
            (likes((7, term("db"))), 1, 7),
            (dislikes((7, term("db"))), 1, -7),
            (near(term("db")), 1, 1),
            (near(term("db")), 50, 50),
        ],
    )
    def test_pods_on_nodes_have_preferences_too(self, affinity: Affinity, weight: int, raw: int) -> None:
        cluster = bench(hard_pod_affinity_weight=weight)
        cluster.add(web("x", "a1", affinity=affinity))
        scores = cluster.scores(asking(None))
        assert scores is not None
        assert scores[0] == [raw, raw, 0, 0]
        assert cluster.scores(asking(None, "cache")) is None

    @pytest.mark.parametrize(
        ("affinity", "raw"),
        [(likes((7, term("db")), (7, term("db"))), 14), (near(term("db"), term("db")), 2)],
    )
    def test_a_term_that_a_pod_has_twice_counts_twice(self, affinity: Affinity, raw: int) -> None:
        cluster = bench()
        cluster.add(web("x", "a1", affinity=affinity))
        scores = cluster.scores(asking(None))
        assert scores is not None
        assert scores[0] == [raw, raw, 0, 0]

    def test_required_affinity_can_count_for_nothing(self) -> None:
        cluster = bench(hard_pod_affinity_weight=0)
        cluster.add(web("x", "a1", affinity=near(term("db"))))
        assert cluster.scores(asking(None)) is None

    def test_it_skips_where_no_preference_meets_a_pod(self) -> None:
        cluster = bench()
        assert cluster.scores(asking(likes((1, term())))) is None
        cluster.add(web("x", "bare"))
        assert cluster.scores(asking(likes((1, term())))) is None
        cluster.add(web("y", "b1"))
        assert cluster.scores(asking(likes((1, term())))) == ([0, 0, 1, 0], [0, 0, 100, 0])

    def test_preferences_that_cancel_out_do_not_skip(self) -> None:
        cluster = bench()
        cluster.add(web("x", "a1"))
        undecided = Affinity(pod_affinity=weighted((3, term())), pod_anti_affinity=weighted((3, term())))
        assert cluster.scores(asking(undecided)) == ([0] * 4, [0] * 4)

    def test_preferences_of_others_can_be_ignored_for_pods_that_have_none(self) -> None:
        cluster = bench(ignore_preferred_terms_of_existing_pods=True)
        cluster.add(web("x", "a1", affinity=likes((7, term("db")))))
        assert cluster.scores(asking(None)) is None
        assert cluster.scores(asking(near(term()))) is None
        scores = cluster.scores(asking(likes((1, term("cache")))))
        assert scores is not None
        assert scores[0] == [7, 7, 0, 0]


# ---- reuse ----------------------------------------------------------------------------------------


class TestReuse:
    def test_the_same_object_says_that_nothing_changed(self) -> None:
        cluster = bench()
        cluster.add(web("x", "a1"))
        first = cluster.verdicts(asking(near(term())))
        assert cluster.verdicts(asking(near(term()))) is first
        cluster.add(web("y", "a2"))  # one more of what is already there
        assert cluster.verdicts(asking(near(term()))) is first
        cluster.add(web("z", "b1"))
        assert cluster.verdicts(asking(near(term()))) is not first

    def test_scores_stay_the_same_object_too(self) -> None:
        cluster = bench()
        cluster.add(web("x", "a1"))
        info = cluster.info(asking(likes((1, term()))))
        state = cluster.state(info)
        view = cluster.cluster.nodes

        def ask() -> Any:
            assert cluster.plugin.pre_score(state, info, view) is None
            raw = cluster.plugin.score_nodes(state, info, view)
            return raw, cluster.plugin.normalize_score(state, info, raw, view)

        first, second = ask(), ask()
        assert first[0] is second[0]
        assert first[1] is second[1]
        cluster.add(web("y", "b1"))
        assert ask()[0].tolist() == [1, 1, 1, 0]
        assert first[0].tolist() == [1, 1, 0, 0]

    @settings(max_examples=60, deadline=None)
    @given(histories(affinity_specs))
    def test_a_memory_never_changes_an_answer(self, history: History) -> None:
        check_reuse(Bench(InterPodAffinity, InterPodAffinityArgs()), history)


# ---- queueing hints -------------------------------------------------------------------------------


class TestHints:
    def hint(self, resource: str, action: Action, pod: Pod, old: Any, new: Any) -> Hint:
        made = bench()
        event = ClusterEvent(resource, action)
        (hint,) = [h.hint for h in made.plugin.events_to_register() if h.event.matches(event)]
        assert hint is not None
        as_seen = [made.info(each) if isinstance(each, Pod) else each for each in (old, new)]
        return hint(made.info(pod), *as_seen)

    @pytest.mark.parametrize(
        ("affinity", "new", "expected"),
        [
            (near(term()), web("x", "a1"), Hint.QUEUE),
            (near(term()), web("x", ""), Hint.SKIP),
            (near(term()), web("x", "", nominated="a1"), Hint.QUEUE),
            (near(term(), term("db")), web("x", "a1"), Hint.SKIP),
            (away(term()), web("x", "a1"), Hint.SKIP),
            (near(term(namespaces=["other"])), web("x", "a1"), Hint.SKIP),
        ],
    )
    def test_added_pods(self, affinity: Affinity, new: Pod, expected: Hint) -> None:
        assert self.hint(Resource.ASSIGNED_POD, Action.ADD, asking(affinity), None, new) is expected

    @pytest.mark.parametrize(
        ("affinity", "old", "expected"),
        [
            (away(term()), web("x", "a1"), Hint.QUEUE),
            (away(term(), term("db")), web("x", "a1"), Hint.SKIP),
            (near(term()), web("x", "a1"), Hint.SKIP),
            (None, web("x", "a1", affinity=away(term("db"))), Hint.QUEUE),
            (None, web("x", "a1", affinity=away(term("cache"))), Hint.SKIP),
            (None, web("x", "a1"), Hint.SKIP),
        ],
    )
    def test_deleted_pods(self, affinity: Affinity | None, old: Pod, expected: Hint) -> None:
        assert self.hint(Resource.ASSIGNED_POD, Action.DELETE, asking(affinity), old, None) is expected

    @pytest.mark.parametrize(
        ("affinity", "before", "after", "expected"),
        [
            (near(term()), "db", "web", Hint.QUEUE),
            (near(term()), "web", "db", Hint.SKIP),
            (away(term()), "web", "db", Hint.QUEUE),
            (away(term()), "db", "web", Hint.SKIP),
        ],
    )
    def test_relabelled_pods(self, affinity: Affinity, before: str, after: str, expected: Hint) -> None:
        old, new = (make_pod("x", {"app": name}, on="a1") for name in (before, after))
        action = Action.UPDATE_POD_LABEL
        assert self.hint(Resource.ASSIGNED_POD, action, asking(affinity), old, new) is expected

    def test_own_labels(self) -> None:
        pod = asking(near(term()))
        action = Action.UPDATE_POD_LABEL
        assert self.hint(Resource.UNSCHEDULABLE_POD, action, pod, pod, pod) is Hint.QUEUE

    @pytest.mark.parametrize(
        ("affinity", "old", "new", "expected"),
        [
            (near(term()), None, {ZONE: "a"}, Hint.QUEUE),
            (near(term()), None, {}, Hint.SKIP),
            (near(term()), {}, {ZONE: "a"}, Hint.QUEUE),
            (near(term()), {ZONE: "a"}, {ZONE: "b"}, Hint.QUEUE),
            (near(term()), {ZONE: "a"}, {}, Hint.SKIP),
            (near(term()), {ZONE: "a"}, {ZONE: "a", "x": "1"}, Hint.SKIP),
            (away(term()), None, {}, Hint.QUEUE),
            (away(term()), {}, {ZONE: "a"}, Hint.SKIP),
            (away(term()), {ZONE: "a"}, {ZONE: "b"}, Hint.QUEUE),
            (away(term()), {ZONE: "a"}, {}, Hint.QUEUE),
            (None, None, {ZONE: "a"}, Hint.SKIP),
        ],
    )
    def test_nodes(self, affinity: Any, old: Any, new: Any, expected: Hint) -> None:
        action = Action.ADD if old is None else Action.UPDATE_NODE_LABEL
        before = None if old is None else make_node("n", old)
        assert self.hint(Resource.NODE, action, asking(affinity), before, make_node("n", new)) is expected
