"""check_plugin: lets good plugins pass, and says of bad ones what is wrong, where, with both answers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from mooring.api.objects import Node
from mooring.api.workloads import Service
from mooring.framework import (
    Action,
    Args,
    CacheKey,
    EventHint,
    Hint,
    Plugin,
    PostFilterResult,
    PreFilterResult,
    Resource,
    Status,
    Verdicts,
    error,
    pending,
    plugin,
    refuse,
    registration,
    requeue_on,
    skip,
    unresolvable,
    unschedulable,
    wait,
)
from mooring.framework.events import ClusterEvent
from mooring.plugins import IN_TREE
from mooring.runtime.groups import Groups
from mooring.testing import check_plugin, make_node, make_pod

NO = unschedulable("no")


def bad(**members: Any) -> type[Plugin]:
    return type("Bad", (Plugin,), {"name": "Bad", **members})


def complaint(cls: type[Plugin], **more: Any) -> str:
    with pytest.raises(AssertionError) as raised:
        check_plugin(cls, **more)
    return str(raised.value)


def ones(self: Any, state: Any, pod: Any, nodes: Any) -> Any:
    return np.ones(len(nodes), np.int64)


def _agrees(self: Any, state: Any, pod: Any, node: Any) -> None:
    return None


# ---- good ones


@pytest.mark.parametrize("cls", IN_TREE, ids=lambda cls: cls.name)
def test_the_default_plugins_pass(cls: type[Plugin]) -> None:
    check_plugin(cls)


class SpreadArgs(Args):
    label: str = "rack"


class Spread(Plugin[SpreadArgs]):
    """A plugin with a bit of everything, done right."""

    name = "Spread"
    cache_key = CacheKey.NODE_AND_PODS

    FULL = unschedulable("node has two of its kind")

    def pre_enqueue(self, pod: Any) -> Status | None:
        return pending("waits for its permission") if "ask-first" in pod.annotations else None

    def events_to_register(self) -> Any:
        yield requeue_on(Resource.POD, Action.DELETE | Action.UPDATE_POD_LABEL, self._of_its_kind)
        yield requeue_on(Resource.NODE, Action.ADD, lambda pod, old, new: Hint.QUEUE)

    def _of_its_kind(self, pod: Any, old: Any, new: Any) -> Hint:
        return Hint.QUEUE if (new or old).labels.get("app") == pod.labels.get("app") else Hint.SKIP

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Any:
        if "app" not in pod.labels:
            return skip(shape=True)
        state.write(self.name, pod.labels["app"])
        return None

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        mine = state.read(self.name)
        return self.FULL if sum(other.labels.get("app") == mine for other in node.pods) >= 2 else None

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Verdicts:
        refused = [self.filter(state, pod, node) is not None for node in nodes]
        return refuse(np.array(refused, np.bool_), self.FULL)

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return -len(node.pods)

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return -nodes.pod_count

    def normalize_score(self, state: Any, pod: Any, scores: Any, nodes: Any) -> Any:
        return 100 + np.maximum(scores, -100)

    def reserve(self, state: Any, pod: Any, node_name: str) -> None:
        state.write("reserved", node_name)

    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        state.delete("reserved")

    def permit(self, state: Any, pod: Any, node_name: str) -> Status | None:
        return wait(5, "a moment") if pod.name == "annotated" else None

    async def pre_bind(self, state: Any, pod: Any, node_name: str) -> None:
        import asyncio

        await asyncio.sleep(0)  # an event loop is there for those that need one

    def bind(self, state: Any, pod: Any, node_name: str) -> Status:
        return skip()

    def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
        return None


def test_a_good_plugin_passes() -> None:
    check_plugin(Spread)
    check_plugin(Spread, {"label": "zone"})
    check_plugin(Spread, SpreadArgs(label="zone"))


def test_a_decorated_plugin_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "decorated", {})
    check_plugin(plugin(type("Decorated", (Spread,), {"name": "Decorated"})))


def test_what_the_plugin_is_about_is_added_to_the_sample() -> None:
    """Without a pod that has the annotation, nothing of this plugin would be seen."""

    class Picky(Plugin):
        name = "Picky"

        def filter(self, state: Any, pod: Any, node: Any) -> Any:
            if "colour" in pod.annotations and node.labels.get("colour"):
                return "not my colour"
            return None

    check_plugin(Picky)
    mine = make_pod("mine", annotations={"colour": "red"})
    check_plugin(Picky, pods=[mine])
    message = complaint(Picky, pods=[mine], nodes=[make_node("painted", labels={"colour": "blue"})])
    assert "plugin \"Picky\", filter, pod default/mine, node painted: returned 'not my colour'" in message


# ---- classes


def test_a_class_that_is_no_plugin() -> None:
    assert "is not a plugin" in complaint(object)  # type: ignore[arg-type]
    assert "implements no extension point" in complaint(bad())


# ---- statuses


@pytest.mark.parametrize(
    ("method", "answer", "words"),
    [
        ("pre_enqueue", skip(), "returned <Skip>; expected one of Success, Unschedulable"),
        ("pre_enqueue", 7, "returned 7; expected None or a Status"),
        (
            "pre_filter",
            pending("x"),
            "expected one of Success, Unschedulable, UnschedulableAndUnresolvable, Skip",
        ),
        ("pre_filter", {"a-1"}, "expected None, a Status or a PreFilterResult"),
        ("pre_filter", PreFilterResult(["a-1"]), "expected node_names to be a frozenset"),  # type: ignore[arg-type]
        ("filter", True, "returned True; expected None or a Status"),
        ("filter", skip(), "returned <Skip>; expected one of"),
        ("filter", wait(5), "returned <Wait>; expected one of"),
        ("filter", error("broken"), "returned an error: broken"),
        ("filter", unschedulable(), "refused without a reason"),
        ("filter", unresolvable(""), "gave the reason ''; expected a text"),
        ("filter", unschedulable(7), "gave the reason 7; expected a text"),  # type: ignore[arg-type]
        ("filter", unschedulable("x", not_before=float("nan")), "refuses until nan; expected seconds"),
        ("post_filter", skip(), "returned <Skip>; expected one of"),
        ("post_filter", "a-1", "expected None, a Status or a PostFilterResult"),
        ("post_filter", PostFilterResult(7), 'nominated 7; expected a node name, "" or None'),  # type: ignore[arg-type]
        ("post_filter", PostFilterResult(None, NO, ("x",)), "named victims without a nominated node"),  # type: ignore[arg-type]
        ("reserve", skip(), "returned <Skip>; expected one of"),
        ("reserve", False, "returned False; expected None or a Status"),
        ("permit", skip(), "returned <Skip>; expected one of"),
        ("permit", wait(-1), "waits for -1 seconds; expected a number that is not negative"),
        ("permit", wait("5"), "waits for '5' seconds"),  # type: ignore[arg-type]
        ("pre_bind", wait(5), "returned <Wait>; expected one of"),
        ("bind", wait(5), "returned <Wait>; expected one of"),
        ("bind", True, "returned True; expected None or a Status"),
        ("post_bind", True, "returned True, which is ignored; expected None"),
    ],
)
def test_statuses_that_mean_nothing_there(method: str, answer: Any, words: str) -> None:
    message = complaint(bad(**{method: lambda self, *args: answer}))
    assert message.startswith(f'plugin "Bad", {method}, pod default/')
    assert words in message


@pytest.mark.parametrize("answer", [NO, pending("no"), error("no")])
def test_pre_score_skips_or_agrees(answer: Status) -> None:
    message = complaint(bad(pre_score=lambda self, *args: answer, score=lambda self, *args: 0))
    assert message.startswith('plugin "Bad", pre_score, pod default/nothing: returned ')


@pytest.mark.parametrize(
    "method",
    [
        *("pre_enqueue", "pre_filter", "filter", "filter_nodes", "post_filter", "score", "score_nodes"),
        *("reserve", "unreserve", "permit", "pre_bind", "bind", "post_bind"),
    ],
)
def test_what_it_raises_is_told(method: str) -> None:
    def raises(self: Any, *args: Any) -> None:
        raise ValueError("boom")

    message = complaint(bad(**{method: raises}))
    assert message.startswith(f'plugin "Bad", {method}, pod default/')
    assert "raised ValueError: boom" in message


def test_what_a_coroutine_does_wrong_is_told() -> None:
    async def pre_bind(self: Any, state: Any, pod: Any, node_name: str) -> Status:
        return skip()

    message = complaint(bad(pre_bind=pre_bind))
    assert message.startswith('plugin "Bad", pre_bind, pod default/')
    assert "returned <Skip>" in message


def test_the_node_is_named() -> None:
    def filter_(self: Any, state: Any, pod: Any, node: Any) -> Any:
        return 7 if node.name == "b-2" else None

    assert ", node b-2: returned 7" in complaint(bad(filter=filter_))


# ---- both grains


def test_filters_that_disagree() -> None:
    cls = bad(
        filter=lambda self, state, pod, node: NO if node.name == "c-1" else None,
        filter_nodes=lambda self, state, pod, nodes: None,
    )
    assert complaint(cls) == (
        'plugin "Bad", filter, pod default/nothing, node c-1: two answers to one question\n'
        "  filter: ('Unschedulable', ('no',))\n"
        "  filter_nodes: ('Success', ())"
    )


def test_groups_that_disagree() -> None:
    def score_groups(self: Any, state: Any, pod: Any, nodes: Any) -> Groups:
        return Groups(np.zeros(len(nodes.whole), np.intp), np.array([1]), np.array([2]))

    message = complaint(bad(score_nodes=ones, score_groups=score_groups))
    assert message.startswith('plugin "Bad", score_groups, pod default/nothing, node ')
    assert message.endswith("two answers to one question\n  normalised: 1\n  score_groups: 2")


def test_groups_that_are_not_there() -> None:
    def score_groups(self: Any, state: Any, pod: Any, nodes: Any) -> Groups:
        return Groups(np.ones(len(nodes.whole), np.intp), np.array([1]), np.array([1]))

    message = complaint(bad(score_nodes=ones, score_groups=score_groups))
    assert message.endswith("put nodes into groups [1] and has 1")


def test_filters_that_disagree_in_the_reason_only() -> None:
    everywhere = unschedulable("No")
    cls = bad(
        filter=lambda self, state, pod, node: NO,
        filter_nodes=lambda self, state, pod, nodes: refuse(np.ones(len(nodes), np.bool_), everywhere),
    )
    assert "two answers to one question" in complaint(cls)


def test_scores_that_disagree() -> None:
    cls = bad(score=lambda self, state, pod, node: 2 if node.name == "a-2" else 1, score_nodes=ones)
    message = complaint(cls)
    assert 'plugin "Bad", score, pod default/nothing, node a-2' in message
    assert "  score: 2\n  score_nodes: 1" in message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda nodes: [None] * len(nodes), "expected Verdicts or None"),
        (lambda nodes: Verdicts(np.zeros(3, np.int32), {}), "gave codes of shape (3,) for 10 nodes"),
        (lambda nodes: Verdicts(np.zeros(len(nodes)), {}), "gave codes of type float64; expected integers"),  # type: ignore[arg-type]
        (lambda nodes: Verdicts([0] * len(nodes), {}), "expected a NumPy array"),  # type: ignore[arg-type]
        (lambda nodes: Verdicts(np.ones(len(nodes), np.int32), {2: NO}), "code 1, which its statuses do not"),
        (
            lambda nodes: Verdicts(np.ones(len(nodes), np.int32), {1: unschedulable()}),
            "refused without a reason",
        ),
    ],
)
def test_verdicts_that_are_wrong(answer: Any, words: str) -> None:
    message = complaint(bad(filter_nodes=lambda self, state, pod, nodes: answer(nodes)))
    assert message.startswith('plugin "Bad", filter_nodes, pod default/nothing')
    assert words in message


def test_a_table_filter_whose_answer_follows_from_who_else_is_asked_about() -> None:
    def first_only(self: Any, state: Any, pod: Any, nodes: Any) -> Verdicts:
        return refuse(np.arange(len(nodes)) > 0, NO)

    message = complaint(bad(filter_nodes=first_only))
    assert "asked about all nodes: ('Unschedulable', ('no',))" in message
    assert "asked about every second node" in message or "asked about this node alone" in message


# ---- scores


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (lambda nodes: [1] * len(nodes), "expected a NumPy array"),
        (lambda nodes: np.ones(len(nodes) + 1, np.int64), "gave scores of shape"),
        (lambda nodes: np.ones(len(nodes)), "gave scores of type float64; expected integers"),
        (lambda nodes: np.full(len(nodes), np.nan), "gave scores of type float64 with NaN"),
        (lambda nodes: np.full(len(nodes), 101), "node a-1 has 101; expected 0 to 100 after normalising"),
        (lambda nodes: np.full(len(nodes), -1), "node a-1 has -1; expected 0 to 100 after normalising"),
    ],
)
@pytest.mark.parametrize("method", ["score_nodes", "normalize_score"])
def test_scores_that_are_wrong(method: str, scores: Any, words: str) -> None:
    members: dict[str, Any] = {"score_nodes": ones}
    members[method] = lambda self, *args: scores(args[-1])
    message = complaint(bad(**members))
    assert message.startswith(f'plugin "Bad", {method}, pod default/nothing')
    assert words in message


@pytest.mark.parametrize("score", [1.0, True, None, "5", float("nan")])
def test_single_scores_that_are_no_integers(score: Any) -> None:
    message = complaint(bad(score=lambda self, *args: score))
    assert (
        message
        == f'plugin "Bad", score, pod default/nothing, node a-1: returned {score!r}; expected an integer'
    )


def test_normalising_a_single_node() -> None:
    """The classic: dividing by the spread of the scores, which is zero with one candidate."""

    def normalize_score(self: Any, state: Any, pod: Any, scores: Any, nodes: Any) -> Any:
        lowest, highest = int(scores.min()), int(scores.max())
        return np.array([(int(score) - lowest) * 100 // (highest - lowest) for score in scores])

    cls = bad(
        score=lambda self, state, pod, node: ord(node.name[0]) * 10 + int(node.name[2]),
        normalize_score=normalize_score,
    )
    message = complaint(cls)
    assert message.startswith('plugin "Bad", normalize_score, pod default/')
    assert "ZeroDivisionError" in message


def test_nodes_that_no_filter_lets_pass_may_have_any_score() -> None:
    """Nobody looks at them: d-2 has no room for any pod."""
    check_plugin(bad(score=lambda self, state, pod, node: 100_000 if node.name == "d-2" else 1))


# ---- shared state


def test_a_filter_that_remembers_who_asked() -> None:
    class Greedy(Plugin):
        """Lets a pod pass once."""

        name = "Greedy"

        def pre_filter(self, state: Any, pod: Any, nodes: Any) -> None:
            state.write(self.name, [])

        def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
            seen = state.read(self.name)
            seen.append(node.name)
            return NO if len(seen) > 10 else None

    message = complaint(Greedy)
    assert "two answers to one question\n  asked once: ('Success', ())\n  asked again: " in message


def test_a_filter_whose_answer_follows_from_the_order_of_the_nodes() -> None:
    class Alternating(Plugin):
        name = "Alternating"
        last = ""

        def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
            last, self.last = self.last, node.name
            return NO if last == "a-1" else None

    assert "two answers to one question" in complaint(Alternating)


class CountsPods(Plugin):
    """Counts in pre_filter, and adjusts the count when pods are supposed to come or go."""

    name = "CountsPods"
    most = 23

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> None:
        state.write(self.name, {"pods": sum(len(node.pods) for node in nodes)})

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return NO if state.read(self.name)["pods"] > self.most else None

    def add_pod(self, state: Any, pod: Any, added: Any, node: Any) -> None:
        state.write(self.name, {"pods": state.read(self.name)["pods"] + 1})

    def remove_pod(self, state: Any, pod: Any, removed: Any, node: Any) -> None:
        state.write(self.name, {"pods": state.read(self.name)["pods"] - 1})


class TestSupposing:
    def test_extensions_that_are_right(self) -> None:
        for most in (18, 19, 20, 21):  # around the number of pods in the sample
            check_plugin(type("Right", (CountsPods,), {"most": most}))

    def test_an_extension_that_forgets(self) -> None:
        class Forgets(CountsPods):
            most = 19

            def remove_pod(self, state: Any, pod: Any, removed: Any, node: Any) -> None:
                return None

        message = complaint(Forgets)
        assert 'plugin "CountsPods", filter, pod default/nothing, node ' in message
        assert (
            "removed from the node: ('Unschedulable', ('no',))\n  when it is really so: ('Success'" in message
        )

    def test_an_extension_that_changes_what_others_share(self) -> None:
        class Leaks(CountsPods):
            most = 20

            def add_pod(self, state: Any, pod: Any, added: Any, node: Any) -> None:
                state.read(self.name)["pods"] += 1

        message = complaint(Leaks)
        assert "before add_pod and remove_pod: ('Success', ())\n  after them (does what" in message
        assert "need a clone() method?" in message

    def test_a_filter_that_looks_at_the_snapshot_instead_of_the_node(self) -> None:
        class Looks(Plugin):
            name = "Looks"
            cache_key = CacheKey.NODE_AND_PODS

            def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
                real = self.handle.snapshot.node(node.name)
                assert real is not None
                return NO if len(real.pods) >= 2 else None

        assert "if supposed: pod default/" in complaint(Looks)


# ---- cache_key


def depending(key: CacheKey, verdict: Any) -> type[Plugin]:
    """Refuses where the verdict (plugin, pod, node) is true."""

    class Depending(Plugin):
        name = "Depending"
        cache_key = key

        def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
            return NO if verdict(self, pod, node) else None

    return Depending


def scoring(key: CacheKey, score_of: Any) -> type[Plugin]:
    class Scoring(Plugin):
        name = "Scoring"
        cache_key = key

        def score(self, state: Any, pod: Any, node: Any) -> int:
            return int(score_of(self, pod, node))

    return Scoring


TOO_NARROW: list[Any] = [
    pytest.param(CacheKey.NODE, lambda self, pod, node: len(node.pods), "pods removed", id="pods"),
    pytest.param(CacheKey.NODE, lambda self, pod, node: node.free["cpu"] < 3000, "pods removed", id="free"),
    pytest.param(
        CacheKey.NODE_AND_PODS,
        lambda self, pod, node: len(self.handle.snapshot.nodes) > 7,
        "other nodes removed",
        id="number of nodes",
    ),
    pytest.param(
        CacheKey.ALL_NODES, lambda self, pod, node: len(node.pods), "pods removed", id="pods instead of nodes"
    ),
    pytest.param(
        CacheKey.NODE_AND_PODS,
        lambda self, pod, node: any(len(n.pods) > 4 for n in self.handle.snapshot.nodes),
        "pods of other nodes moved among them",
        id="pods of other nodes",
    ),
    pytest.param(
        CacheKey.NODE_AND_PODS,
        lambda self, pod, node: bool(self.handle.listers.list(Service)),
        "claims, volumes, services and the like removed",
        id="other objects",
    ),
    pytest.param(
        CacheKey.NODE,
        lambda self, pod, node: self.handle.now() // 864_000 % 2 > 0,
        "ten days later",
        id="the clock",
    ),
    pytest.param(
        CacheKey.NODE, lambda self, pod, node: "team" in pod.annotations, "annotations", id="annotations"
    ),
    pytest.param(
        CacheKey.NODE_AND_PODS, lambda self, pod, node: pod.name.endswith("-twin"), "another name", id="names"
    ),
    pytest.param(
        CacheKey.RESOURCES,
        lambda self, pod, node: "disk" in node.labels,
        "a node of equal amounts",
        id="labels",
    ),
    pytest.param(
        CacheKey.RESOURCES,
        lambda self, pod, node: node.name[-1] == "1",
        "a node of equal amounts",
        id="node names",
    ),
    pytest.param(
        CacheKey.RESOURCES,
        lambda self, pod, node: any("app" in other.labels for other in node.pods),
        "a node of equal amounts",
        id="labels of pods",
    ),
]


class TestCacheKey:
    @pytest.mark.parametrize(("cache_key", "verdict", "difference"), TOO_NARROW)
    def test_a_filter_that_reads_more(self, cache_key: CacheKey, verdict: Any, difference: str) -> None:
        message = complaint(depending(cache_key, verdict))
        assert message.startswith('plugin "Depending", filter, pod default/')
        assert f"cache_key = {cache_key.name}: the answer changed, the key did not" in message
        assert difference in message

    @pytest.mark.parametrize(("cache_key", "verdict", "difference"), TOO_NARROW)
    def test_a_score_that_reads_more(self, cache_key: CacheKey, verdict: Any, difference: str) -> None:
        message = complaint(scoring(cache_key, verdict))
        assert message.startswith('plugin "Scoring", score, pod default/')
        assert f"cache_key = {cache_key.name}: the answer changed, the key did not" in message
        assert difference in message

    @pytest.mark.parametrize(("cache_key", "verdict", "difference"), TOO_NARROW)
    def test_without_a_cache_key_a_plugin_may_read_anything(
        self, cache_key: CacheKey, verdict: Any, difference: str
    ) -> None:
        check_plugin(depending(CacheKey.NONE, verdict))
        check_plugin(scoring(CacheKey.NONE, verdict))

    def test_all_nodes_may_matter_to_one_that_says_so(self) -> None:
        check_plugin(
            depending(CacheKey.ALL_NODES, lambda self, pod, node: len(self.handle.snapshot.nodes) > 7)
        )
        check_plugin(scoring(CacheKey.ALL_NODES, lambda self, pod, node: len(self.handle.snapshot.nodes)))

    def test_amounts_are_what_a_node_has_and_what_its_pods_take(self) -> None:
        check_plugin(depending(CacheKey.RESOURCES, lambda self, pod, node: node.free["cpu"] < 3000))
        check_plugin(
            scoring(CacheKey.RESOURCES, lambda self, pod, node: node.pod_count + node.amounts[0] % 7)
        )

    @pytest.mark.parametrize("method", ["pre_filter", "pre_score"])
    def test_preparations_that_do_not_follow_from_the_shape(self, method: str) -> None:
        def by_number_of_nodes(self: Any, state: Any, pod: Any, nodes: Any) -> Status | None:
            return skip() if len(self.handle.snapshot.nodes) > 7 else None

        members = {"cache_key": CacheKey.NODE, "filter": _agrees, "score": lambda self, *args: 0}
        message = complaint(bad(**members, **{method: by_number_of_nodes}))
        assert message.startswith(
            f'plugin "Bad", {method}, pod default/nothing: cache_key = NODE: the answer changed'
        )
        assert "before: <Skip>\n  other nodes removed: success" in message

    def test_what_pre_filter_writes_must_not_follow_from_the_order_of_the_nodes(self) -> None:
        """It is kept for the shape, while nodes come and go and rows move."""

        class ByRow(Plugin):
            name = "ByRow"
            cache_key = CacheKey.NODE

            def pre_filter(self, state: Any, pod: Any, nodes: Any) -> None:
                state.write(self.name, [node.labels.get("disk") == "hdd" for node in nodes])

            def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Verdicts:
                refused = state.read(self.name)
                return refuse(np.array([refused[row % len(refused)] for row in nodes.rows]), NO)

        message = complaint(ByRow)
        assert message.startswith('plugin "ByRow", filter_nodes, pod default/nothing, node ')
        assert "with what pre_filter and pre_score wrote before" in message

    def test_normalising_by_how_many_nodes_there_are(self) -> None:
        """Such scores are kept while there are the same raw ones, on however many nodes."""

        def normalize_score(self: Any, state: Any, pod: Any, scores: Any, nodes: Any) -> Any:
            return scores * 100 // scores.sum()

        def score(self: Any, state: Any, pod: Any, node: Any) -> int:
            return 2 if node.name.endswith("1") else 1

        check_plugin(bad(score=score, normalize_score=normalize_score))
        message = complaint(bad(score=score, normalize_score=normalize_score, cache_key=CacheKey.NODE))
        assert message.startswith('plugin "Bad", normalize_score, pod default/nothing, node ')
        assert "among one candidate for each score" in message

    def test_a_promise_for_a_shape_that_does_not_hold(self) -> None:
        class Promises(Plugin):
            name = "Promises"

            def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Status | None:
                return skip(shape=True) if pod.annotations else None

            def filter(self, state: Any, pod: Any, node: Any) -> None:
                return None

        message = complaint(Promises)
        assert message.startswith('plugin "Promises", pre_filter, pod default/annotated: skip(shape=True) ')
        assert "without annotations: success" in message


# ---- events, queue sort, unreserve


class TestEvents:
    @pytest.mark.parametrize(
        ("registered", "words"),
        [
            ([7], "yielded 7; expected requeue_on(Resource.NODE, Action.ADD)"),
            ([ClusterEvent("Node", Action.ADD)], "expected requeue_on(Resource.NODE, Action.ADD)"),
            ([requeue_on("Nodes", Action.ADD)], "registers for 'Nodes'; expected one of *, "),
            (
                [requeue_on(Resource.NODE, Action(0))],
                "registers for Node with <Action: 0>; expected an Action",
            ),
            ([requeue_on(Resource.NODE, 3)], "registers for Node with 3; expected an Action"),  # type: ignore[arg-type]
            (
                [requeue_on(Resource.WILDCARD, Action.ADD)],
                "registers for * with <Action.ADD: 1>; expected Action.ALL",
            ),
            ([EventHint(ClusterEvent("Node", Action.ADD), "yes")], "expected a function or None"),  # type: ignore[arg-type]
        ],
    )
    def test_registrations_that_make_no_sense(self, registered: Any, words: str) -> None:
        message = complaint(bad(filter=lambda self, *args: None, events_to_register=lambda self: registered))
        assert message.startswith('plugin "Bad", events_to_register: ')
        assert words in message

    def test_events_to_register_that_raises(self) -> None:
        def events_to_register(self: Any) -> Any:
            raise ValueError("boom")

        with pytest.raises((AssertionError, ValueError), match="boom"):
            check_plugin(bad(filter=lambda self, *args: None, events_to_register=events_to_register))

    @pytest.mark.parametrize(
        ("resource", "action", "what"),
        [
            (Resource.POD, Action.ADD, "PodAdd, running added"),
            (Resource.POD, Action.DELETE, "PodDelete, running deleted"),
            (Resource.POD, Action.UPDATE_POD_LABEL, "PodUpdatePodLabel, running updated"),
            (Resource.NODE, Action.ADD, "NodeAdd, changed added"),
            (Resource.NODE, Action.UPDATE_NODE_LABEL, "NodeUpdateNodeLabel, changed updated"),
            (Resource.PERSISTENT_VOLUME, Action.ADD, "PersistentVolumeAdd, pv-1 added"),
            (Resource.STORAGE_CLASS, Action.DELETE, "StorageClassDelete, fast deleted"),
            (Resource.CSI_DRIVER, Action.ADD, "CSIDriverAdd, csi.example.com added"),
        ],
    )
    def test_hints_that_do_not_answer(self, resource: str, action: Action, what: str) -> None:
        cls = bad(
            filter=lambda self, *args: None,
            events_to_register=lambda self: [requeue_on(resource, action, lambda pod, old, new: None)],  # type: ignore[arg-type, return-value]
        )
        message = complaint(cls)
        assert message.startswith('plugin "Bad", events_to_register, pod default/nothing, hint for ')
        assert f"{what}: returned None; expected Hint.QUEUE or Hint.SKIP" in message

    def test_hints_that_forget_that_an_object_may_be_new(self) -> None:
        def hint(pod: Any, old: Any, new: Any) -> Hint:
            return Hint.QUEUE if old.labels != new.labels else Hint.SKIP

        cls = bad(
            filter=lambda self, *args: None,
            events_to_register=lambda self: [
                requeue_on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, hint)
            ],
        )
        assert "raised AttributeError: 'NoneType' object has no attribute 'labels'" in complaint(cls)

    def test_hints_see_pods_and_nodes_as_in_a_scheduler(self) -> None:
        seen: set[type] = set()

        def hint(pod: Any, old: Any, new: Any) -> Hint:
            seen.update(type(each) for each in (old, new) if each is not None)
            return Hint.SKIP

        events = [requeue_on(Resource.POD, Action.ALL, hint), requeue_on(Resource.NODE, Action.ALL, hint)]
        check_plugin(bad(filter=lambda self, *args: None, events_to_register=lambda self: events))
        assert Node in seen
        assert {cls.__name__ for cls in seen} == {"Node", "PodInfo"}


class TestQueueSort:
    def test_a_good_one(self) -> None:
        check_plugin(
            bad(sorts_before=lambda self, a, b: (a.pod.name, a.timestamp) < (b.pod.name, b.timestamp))
        )

    def test_both_ways(self) -> None:
        message = complaint(bad(sorts_before=lambda self, a, b: a.timestamp <= b.timestamp))
        assert message.startswith('plugin "Bad", sorts_before: default/nothing is before default/')

    def test_round_in_circles(self) -> None:
        def scissors_paper_stone(self: Any, a: Any, b: Any) -> bool:
            return bool((int(a.timestamp) - int(b.timestamp)) % 3 == 1)

        assert "is not before" in complaint(bad(sorts_before=scissors_paper_stone))

    def test_no_answer(self) -> None:
        message = complaint(bad(sorts_before=lambda self, a, b: None))
        assert "returned None for default/nothing and default/nothing; expected True or False" in message


def test_an_unreserve_that_needs_a_reserve_before() -> None:
    class Careless(Plugin):
        name = "Careless"

        def __init__(self, args: Any, handle: Any) -> None:
            super().__init__(args, handle)
            self.taken: dict[str, str] = {}

        def reserve(self, state: Any, pod: Any, node_name: str) -> None:
            self.taken[pod.uid] = node_name

        def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
            del self.taken[pod.uid]

    message = complaint(Careless)
    assert message.startswith('plugin "Careless", unreserve, pod default/nothing, node a-1, nothing reserved')
    assert "raised KeyError" in message


def test_an_error_that_only_shows_at_work() -> None:
    """The third pod breaks it."""
    numbers = itertools.count(1)

    def reserve(self: Any, state: Any, pod: Any, node_name: str) -> None:
        if next(numbers) == 3:
            raise ValueError("three is a crowd")

    message = complaint(bad(reserve=reserve))
    assert "reserve, pod default/" in message
    assert "raised ValueError: three is a crowd" in message
