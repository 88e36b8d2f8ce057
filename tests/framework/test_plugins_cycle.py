"""The scheduling cycle: what each status means at pre_filter, filter, post_filter, pre_score and reserve."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.framework import (
    Action,
    Code,
    Plugin,
    PostFilterResult,
    PreFilterResult,
    Resource,
    Status,
    error,
    pending,
    requeue_on,
    skip,
    unresolvable,
    unschedulable,
    wait,
)
from mooring.testing import Cluster, make_node, make_pod
from tests.framework.kit import beside_defaults, only, probe

NEVER: list[Any] = []  # events_to_register: nothing brings a refused pod back


def tried(cluster: Cluster, **pod: Any) -> Any:
    """The only attempt at a pod."""
    cluster.apply(make_pod(**pod))
    (decision,) = cluster.schedule()
    return decision


class Statuses:
    """A post_filter that keeps what it was told about the nodes."""

    def __init__(self) -> None:
        self.seen: dict[str, Status] = {}

    def __call__(self, state: Any, pod: Any, statuses: Any) -> Status:
        self.seen = dict(statuses)
        return unschedulable("cannot help")

    @property
    def codes(self) -> dict[str, Code]:
        return {name: status.code for name, status in self.seen.items()}


class TestPreFilter:
    def test_skip_leaves_out_this_plugins_filter_and_no_other(self) -> None:
        calls: list[str] = []
        a = probe("A", calls, pre_filter=skip(), filter=unschedulable("no"))
        b = probe("B", calls, pre_filter=None, filter=None)
        decision = tried(only(a, b))
        assert decision.result == "scheduled"
        assert decision.skipped_filters == ["A"]
        assert "A.filter" not in calls
        assert "B.filter" in calls

    def test_unschedulable_rejects_the_pod_after_all_others_have_run(self) -> None:
        calls: list[str] = []
        statuses = Statuses()
        a = probe("A", calls, pre_filter=unschedulable("not this pod"), events_to_register=NEVER)
        b = probe("B", calls, pre_filter=None, filter=None, post_filter=statuses)
        calls.clear()
        decision = tried(only(a, b))
        assert calls == ["A.events_to_register", "A.pre_filter", "B.pre_filter", "B.post_filter"]
        assert decision.message == "0/2 nodes are available: not this pod. cannot help"
        assert decision.unschedulable_plugins == ["A"]
        assert statuses.codes == {"a": Code.UNSCHEDULABLE, "b": Code.UNSCHEDULABLE}

    def test_unresolvable_rejects_the_pod_at_once(self) -> None:
        calls: list[str] = []
        statuses = Statuses()
        a = probe("A", calls, pre_filter=unresolvable("never"), events_to_register=NEVER)
        b = probe("B", calls, pre_filter=None, post_filter=statuses)
        decision = tried(only(a, b))
        assert "B.pre_filter" not in calls
        assert decision.message == "0/2 nodes are available: never. cannot help"
        assert set(statuses.codes.values()) == {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}

    def test_a_later_unresolvable_outranks_an_earlier_unschedulable(self) -> None:
        a = probe("A", pre_filter=unschedulable("perhaps"), events_to_register=NEVER)
        b = probe("B", pre_filter=unresolvable("never"), events_to_register=NEVER)
        decision = tried(only(a, b))
        assert (decision.message, decision.unschedulable_plugins) == (
            "0/2 nodes are available: never.",
            ["B"],
        )

    @pytest.mark.parametrize("status", [pending("later"), wait(5, "later"), error("later")])
    def test_any_other_status_is_an_error(self, status: Status) -> None:
        decision = tried(only(probe("A", pre_filter=status)))
        assert decision.result == "error"
        assert decision.message == 'running PreFilter plugin "A": later'

    def test_restrictions_are_intersected(self) -> None:
        asked: list[str] = []

        def note(state: Any, pod: Any, node: Any) -> None:
            asked.append(node.name)

        a = probe("A", pre_filter=PreFilterResult(frozenset({"a", "b", "nowhere"})))
        b = probe("B", pre_filter=PreFilterResult(frozenset({"b", "c"})), filter=note)
        decision = tried(only(a, b, nodes=("a", "b", "c")))
        assert (decision.node, decision.pre_filter_nodes, asked) == ("b", ["b"], ["b"])

    def test_nodes_outside_the_restriction_are_named_in_the_message(self) -> None:
        statuses = Statuses()
        a = probe("A", pre_filter=PreFilterResult(frozenset({"a"})), events_to_register=NEVER)
        b = probe("B", filter=unschedulable("full"), post_filter=statuses, events_to_register=NEVER)
        decision = tried(only(a, b, nodes=("a", "b", "c")))
        assert decision.message == (
            "0/3 nodes are available: 1 full, 2 node(s) didn't satisfy plugin(s) [A]. cannot help"
        )
        assert decision.unschedulable_plugins == ["A", "B"]
        unresolvable_code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert statuses.codes == {"a": Code.UNSCHEDULABLE, "b": unresolvable_code, "c": unresolvable_code}

    def test_one_plugin_that_leaves_no_node(self) -> None:
        a = probe("A", pre_filter=PreFilterResult(frozenset()), events_to_register=NEVER)
        decision = tried(only(a))
        assert decision.message == "0/2 nodes are available: node(s) didn't satisfy plugin A."
        assert decision.unschedulable_plugins == ["A"]

    def test_two_plugins_that_leave_no_node_together(self) -> None:
        calls: list[str] = []
        b = probe("B", pre_filter=PreFilterResult(frozenset({"b"})), events_to_register=NEVER)
        a = probe("A", pre_filter=PreFilterResult(frozenset({"a"})), events_to_register=NEVER)
        c = probe("C", calls, pre_filter=None)
        decision = tried(only(b, a, c))
        assert decision.message == (
            "0/2 nodes are available: node(s) didn't satisfy plugin(s) [A B] simultaneously."
        )
        assert decision.unschedulable_plugins == ["A", "B"]
        assert calls == []

    def test_what_it_wrote_reaches_the_later_points_of_the_cycle(self) -> None:
        seen: list[tuple[str, Any]] = []

        def write(state: Any, pod: Any, nodes: Any) -> None:
            state.write("A", f"for {pod.name}")

        def reader(point: str) -> Any:
            return lambda state, *args: seen.append((point, state.read("A")))

        points = ("filter", "pre_score", "reserve", "permit", "pre_bind", "post_bind")
        plugin = probe("A", pre_filter=write, **{point: reader(point) for point in points})
        cluster = only(plugin, nodes=("a",))
        tried(cluster, name="one")
        assert dict(seen) == dict.fromkeys(points, "for one")

    def test_one_cycles_state_is_not_the_nexts(self) -> None:
        found: list[Any] = []

        def look(state: Any, pod: Any, nodes: Any) -> None:
            found.append(state.get("A"))
            state.write("A", pod.name)

        cluster = only(probe("A", pre_filter=look))
        cluster.apply(make_pod("one"), make_pod("two"))
        cluster.schedule()
        assert found == [None, None]

    def test_skipping_a_shape_means_not_being_asked_again(self) -> None:
        calls: list[str] = []
        cluster = only(probe("A", calls, pre_filter=skip(shape=True), filter=unschedulable("no")))
        cluster.apply(*(make_pod(f"same-{i}") for i in range(3)))
        cluster.schedule()
        assert calls == ["A.pre_filter"]
        cluster.apply(make_pod("other", labels={"app": "x"}))
        cluster.schedule()
        assert calls == ["A.pre_filter"] * 2


class TestFilter:
    @pytest.mark.parametrize(
        ("status", "code"),
        [
            (unschedulable("no"), Code.UNSCHEDULABLE),
            (unresolvable("no"), Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
            (pending("no"), Code.PENDING),
        ],
    )
    def test_a_refusal_counts_with_its_code_and_plugin(self, status: Status, code: Code) -> None:
        statuses = Statuses()
        a = probe("A", filter=status, post_filter=statuses, events_to_register=NEVER)
        decision = tried(only(a))
        assert decision.message == "0/2 nodes are available: 2 no. cannot help"
        assert decision.unschedulable_plugins == ["A"]
        assert statuses.codes == {"a": code, "b": code}
        assert {status.plugin for status in statuses.seen.values()} == {"A"}

    @pytest.mark.parametrize("status", [skip(), wait(5)])
    def test_skip_and_wait_are_errors(self, status: Status) -> None:
        decision = tried(only(probe("A", filter=status)))
        assert decision.result == "error"
        expected = f'running "A" filter plugin: unexpected status {status.code.text}'
        assert decision.message == expected

    def test_an_error_aborts_the_attempt_with_its_text(self) -> None:
        decision = tried(only(probe("A", filter=error("disk on fire"))))
        assert (decision.result, decision.reason) == ("error", "SchedulerError")
        assert decision.message == 'running "A" filter plugin: disk on fire'

    def test_several_reasons_count_each(self) -> None:
        a = probe("A", filter=unschedulable("too small", "too slow"), events_to_register=NEVER)
        assert tried(only(a)).message == "0/2 nodes are available: 2 too slow, 2 too small."

    def test_an_explicit_success_is_a_success(self) -> None:
        assert tried(only(probe("A", filter=Status(Code.SUCCESS)))).result == "scheduled"

    def test_pending_skips_the_backoff_once_its_event_comes(self) -> None:
        """The pod failed a moment ago, so that an ordinary refusal would have it wait for the backoff."""
        refuse: list[Status] = [pending("not yet")]
        a = probe(
            "A",
            filter=lambda state, pod, node: refuse[0] if refuse else None,
            events_to_register=[requeue_on(Resource.NODE, Action.ADD)],
        )
        for status, place in ((pending("not yet"), "active"), (unschedulable("not yet"), "backoff")):
            refuse[:] = [status]
            cluster = only(a)
            tried(cluster)
            assert cluster.scheduler.queue.counts()["unschedulable"] == 1
            refuse.clear()
            cluster.apply(make_node("new"))
            assert cluster.scheduler.queue.counts()[place] == 1
            cluster.advance(5)
            assert cluster.node_of("pod")


class TestPostFilter:
    @staticmethod
    def refusing(*post_filters: Any, calls: list[str] | None = None) -> Cluster:
        first = probe("Refuser", filter=unschedulable("full"), events_to_register=NEVER)
        plugins = [probe(f"P{i}", calls, post_filter=answer) for i, answer in enumerate(post_filters)]
        return only(first, *plugins)

    def test_the_first_success_ends_it(self) -> None:
        calls: list[str] = []
        cluster = self.refusing(
            unschedulable("no"), PostFilterResult("b"), unschedulable("too late"), calls=calls
        )
        decision = tried(cluster)
        assert calls == ["P0.post_filter", "P1.post_filter"]
        assert decision.post_filter.nominated_node == "b"
        assert decision.message == "0/2 nodes are available: 2 full."
        assert cluster.pod("pod").status.nominated_node_name == "b"

    def test_refusals_are_collected(self) -> None:
        decision = tried(self.refusing(unschedulable("one"), pending("two")))
        assert decision.message == "0/2 nodes are available: 2 full. one, two"

    def test_unresolvable_ends_it(self) -> None:
        calls: list[str] = []
        decision = tried(self.refusing(unresolvable("hopeless"), unschedulable("more"), calls=calls))
        assert calls == ["P0.post_filter"]
        assert decision.message == "0/2 nodes are available: 2 full. hopeless"

    def test_an_error_ends_it_and_the_pod_is_still_unschedulable(self) -> None:
        calls: list[str] = []
        decision = tried(self.refusing(error("broken"), unschedulable("more"), calls=calls))
        assert calls == ["P0.post_filter"]
        assert (decision.result, decision.message) == (
            "unschedulable",
            "0/2 nodes are available: 2 full. broken",
        )

    def test_it_is_not_asked_when_there_is_a_node(self) -> None:
        calls: list[str] = []
        tried(only(probe("A", calls, filter=None, post_filter=None)))
        assert "A.post_filter" not in calls

    def test_a_nomination_is_tried_first_and_cleared_when_it_does_not_hold(self) -> None:
        full = {"a", "b"}
        a = probe(
            "A",
            filter=lambda state, pod, node: unschedulable("full") if node.name in full else None,
            post_filter=lambda state, pod, statuses: PostFilterResult("b" if "b" in full else ""),
            events_to_register=[requeue_on(Resource.NODE, Action.ADD)],
        )
        cluster = only(a)
        tried(cluster)
        assert [pod.name for pod in cluster.scheduler.queue.nominator.nominated_for("b")] == ["pod"]
        full -= {"a", "b"}
        cluster.apply(make_node("c"))
        cluster.advance(5)
        assert cluster.node_of("pod") == "b"


class TestPreScore:
    def test_skip_leaves_out_this_plugins_score(self) -> None:
        calls: list[str] = []
        a = probe("A", calls, pre_score=skip(), score=100, normalize_score=lambda s, p, scores, n: scores)
        b = probe("B", calls, pre_score=None, score=7)
        decision = tried(only(a, b))
        assert (decision.skipped_scores, decision.total) == (["A"], [7, 7])
        assert not {"A.score", "A.normalize_score"} & set(calls)

    @pytest.mark.parametrize("status", [unschedulable("no"), unresolvable("no"), pending("no"), error("no")])
    def test_anything_but_skip_aborts(self, status: Status) -> None:
        decision = tried(only(probe("A", pre_score=status, score=0)))
        assert (decision.result, decision.message) == ("error", 'running PreScore plugin "A": no')

    def test_it_sees_the_feasible_nodes(self) -> None:
        seen: list[list[str]] = []
        a = probe(
            "A",
            filter=lambda state, pod, node: unschedulable("no") if node.name == "b" else None,
            pre_score=lambda state, pod, nodes: seen.append(list(nodes.names)),
            score=0,
        )
        tried(only(a, nodes=("a", "b", "c")))
        assert seen == [["a", "c"]]


class TestReserve:
    @staticmethod
    def three(calls: list[str], middle: Any) -> list[type[Plugin]]:
        return [
            probe("A", calls, reserve=None, unreserve=None),
            probe("B", calls, reserve=middle, unreserve=None, filter=None, events_to_register=NEVER),
            probe("C", calls, reserve=None, unreserve=None),
        ]

    @pytest.mark.parametrize("status", [unschedulable("taken"), unresolvable("taken"), pending("taken")])
    def test_a_refusal_unreserves_all_in_reverse(self, status: Status) -> None:
        calls: list[str] = []
        cluster = only(*self.three(calls, status), nodes=("a",))
        calls.clear()
        decision = tried(cluster)
        assert [call for call in calls if "reserve" in call] == [
            "A.reserve",
            "B.reserve",
            "C.unreserve",
            "B.unreserve",
            "A.unreserve",
        ]
        assert (decision.result, decision.message) == (
            "unschedulable",
            "0/1 nodes are available: 1 taken.",
        )
        assert decision.unschedulable_plugins == ["B"]
        assert list(cluster.scheduler.cluster.pods()) == []

    @pytest.mark.parametrize("status", [error("taken"), skip(), wait(5, "taken")])
    def test_other_statuses_are_errors(self, status: Status) -> None:
        calls: list[str] = []
        decision = tried(only(*self.three(calls, status), nodes=("a",)))
        assert decision.result == "error"
        assert decision.message.startswith('running Reserve plugin "B": ')
        assert calls[-3:] == ["C.unreserve", "B.unreserve", "A.unreserve"]

    def test_the_pod_already_counts_on_its_node(self) -> None:
        seen: list[Any] = []
        a = probe("A", reserve=lambda state, pod, node_name: seen.append((pod.node_name, node_name)))
        tried(only(a, nodes=("a",)))
        assert seen == [("a", "a")]

    def test_a_refusal_frees_the_room_for_others(self) -> None:
        """The first pod would fill the node; it is refused late, and the second gets the room."""
        a = probe(
            "A",
            reserve=lambda state, pod, node: unschedulable("no") if pod.name == "first" else None,
            events_to_register=NEVER,
        )
        cluster = beside_defaults(a, nodes=("a",))
        cluster.apply(make_pod("first", requests={"cpu": "4"}), make_pod("second", requests={"cpu": "4"}))
        cluster.schedule()
        assert (cluster.node_of("first"), cluster.node_of("second")) == ("", "a")


class TestNotBefore:
    """A refusal that ends by itself at a known time: the pod is tried again then, not at the next flush."""

    @pytest.mark.parametrize("point", ["pre_enqueue", "pre_filter", "filter", "reserve", "permit"])
    @pytest.mark.parametrize("refuse", [unschedulable, unresolvable])
    def test_the_pod_is_tried_at_that_time(self, point: str, refuse: Any) -> None:
        clock: list[Any] = []
        due: list[float] = []

        def early(*args: Any) -> Status | None:
            return refuse("too early", not_before=due[0]) if clock[0]() < due[0] else None

        cluster = only(probe("A", None, events_to_register=NEVER, **{point: early}))
        clock.append(cluster.now)
        due.append(cluster.now() + 42.5)
        cluster.apply(make_pod())
        cluster.schedule()
        cluster.advance(42)
        assert cluster.node_of("pod") == ""
        cluster.advance(0.5)
        assert cluster.node_of("pod")
