"""Plugins behind an extender's verbs say what they say in the scheduler."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring import extender as ext
from mooring.api.objects import Node, Pod
from mooring.config import ConfigError, LoadedConfig, from_object
from mooring.core.build import registry_with
from mooring.core.scheduler import Scheduler, first_of
from mooring.extender.serving.loading import LoadingError
from mooring.extender.serving.plugin_profile import make_scheduler
from mooring.extender.serving.plugin_verbs import ServedPlugins
from mooring.extender.serving.questions import NodeSet, Question
from mooring.extender.serving.verbs import Preemption
from mooring.extender.wire import ExtenderPreemptionArgs, MetaPod, MetaVictims, write
from mooring.framework import (
    Args,
    CacheKey,
    CycleState,
    IntArray,
    NodeInfo,
    Nodes,
    Plugin,
    PodInfo,
    PostFilterResult,
    PreFilterResult,
    StateKey,
    Status,
    unresolvable,
    unschedulable,
)
from mooring.plugins import IN_TREE
from mooring.testing import config_with, make_node, make_pod, spread_constraint
from tests.extender.serving_kit import extender, node, pod
from tests.strategies import examples

T = TypeVar("T")

NAMES = ("NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodeResourcesFit", "PodTopologySpread")
CLASSES = [cls for cls in IN_TREE if cls.name in NAMES]
WEIGHTS = {"TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2}


def now(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        found: T = done.value
        return found
    raise AssertionError("it waits")


def served(*names: str, cached: bool = True, config: LoadedConfig | None = None) -> ServedPlugins:
    scheduler, _ = make_scheduler(names, registry_with(), config)
    return ServedPlugins(scheduler, cached=cached)


def asked(pod: Pod, names: list[str]) -> Question:
    return Question(b"", pod, NodeSet(names))


# ---- the same as the scheduler

nodes = st.builds(
    make_node,
    st.sampled_from(["a", "b", "c", "d", "e"]),
    cpu=st.sampled_from(["1", "2", "4"]),
    zone=st.sampled_from(["x", "y", ""]),
    taints=st.sampled_from([(), "t=1:NoSchedule", "t=1:PreferNoSchedule"]),
    unschedulable=st.sampled_from([False, False, False, True]),
)
TEMPLATES: list[dict[str, Any]] = [
    {},
    {"requests": {"cpu": "1"}},
    {"requests": {"cpu": "1"}, "tolerations": "t=1:NoSchedule"},
    {"node_selector": {"topology.kubernetes.io/zone": "x"}},
    {
        "labels": {"app": "web"},
        "spread": [spread_constraint("topology.kubernetes.io/zone", {"app": "web"})],
    },
    {
        "labels": {"app": "web"},
        "spread": [
            spread_constraint("kubernetes.io/hostname", {"app": "web"}, when_unsatisfiable="ScheduleAnyway")
        ],
    },
]
changes = st.one_of(
    nodes,
    st.tuples(st.sampled_from("abcde"), st.integers(0, len(TEMPLATES) - 1)),
    st.sampled_from("abcde"),
)


@given(
    st.lists(changes, max_size=12),
    st.lists(st.integers(0, len(TEMPLATES) - 1), min_size=1, max_size=4),
    st.data(),
)
@examples(60)
def test_served_plugins_agree_with_the_scheduler(
    history: list[Node | tuple[str, int] | str], templates: list[int], data: st.DataObject
) -> None:
    mine = served(*NAMES, config=from_object(_config()))
    theirs = Scheduler(from_object(_config()), clock=lambda: 0.0, pick=first_of, registry=registry_with())
    for count, change in enumerate(history):
        for scheduler in (mine.scheduler, theirs):
            _apply(scheduler, change, count)
        for template in templates:
            names = data.draw(st.lists(st.sampled_from("abcdef"), unique=True))
            _compare(mine, theirs, _pod(f"probe{template}", template), names)


def _config() -> dict[str, Any]:
    config = config_with(CLASSES, defaults=False)
    config["profiles"][0]["plugins"]["score"] = {
        "enabled": [{"name": name, "weight": weight} for name, weight in WEIGHTS.items()]
    }
    return config


def _pod(name: str, template: int, node_name: str = "") -> Pod:
    return make_pod(name, node_name=node_name, **TEMPLATES[template])


def _apply(scheduler: Scheduler, change: Node | tuple[str, int] | str, count: int) -> None:
    if isinstance(change, Node):
        scheduler.apply(change)
    elif isinstance(change, str):
        scheduler.delete(make_node(change))
    else:
        scheduler.apply(_pod(f"placed{count}", change[1], change[0]))


def _compare(mine: ServedPlugins, theirs: Scheduler, probe: Pod, names: list[str]) -> None:
    cluster = theirs.cluster
    choice = theirs.rehearse(cluster.info(probe))
    known = [name for name in names if cluster.node(name) is not None]
    refused = now(mine.filter(asked(probe, names)))
    assert {name for name in names if "not known" in refused.get(name, unresolvable("")).message} == set(
        names
    ) - set(known)
    for name in known:
        mine_says, they_say = refused.get(name), choice.diagnosis.status(cluster.table.row_of[name])
        assert (mine_says and (mine_says.code, mine_says.message)) == (
            they_say and (they_say.code, they_say.message)
        )
    if choice.scoring is None or choice.feasible is None:
        return
    feasible = [cluster.table.names[row] for row in np.flatnonzero(choice.feasible)]
    scores = now(mine.prioritize(asked(probe, feasible)))
    weights = sum(runner.weight for runner in theirs.profiles["default-scheduler"].scores)
    for name, score in zip(feasible, scores, strict=True):
        mean = int(choice.scoring.total[cluster.table.row_of[name]]) / weights
        assert score == int(mean / 10 + 0.5)
        assert 0 <= score <= 10


# ---- over HTTP


class LimitArgs(Args):
    most: int = 0


SEEN = StateKey[int]("seen")


class Odd(Plugin[LimitArgs]):
    """Takes part in everything that an extender offers."""

    name = "Odd"

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        if pod.name == "nowhere":
            return unresolvable("not today")
        state.write(SEEN, len(nodes))
        return PreFilterResult(frozenset({"a", "b"})) if pod.name == "restricted" else None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if pod.name == "broken":
            raise RuntimeError("out of order")
        if len(node.pods) > self.args.most:
            return unschedulable("node(s) had too many pods")
        return unresolvable("node(s) were odd") if node.labels.get("odd") else None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        assert state.read(SEEN)
        return int(node.labels.get("score", "0"))


def refusals(result: dict[str, Any]) -> dict[str, str]:
    assert result["Error"] == "", result
    return {**result["FailedNodes"], **result["FailedAndUnresolvableNodes"]}


def test_nodes_in_the_request() -> None:
    odd, even = node("odd", odd="yes"), node("even", score="45")
    with extender(plugins=(Odd,)) as it:
        result = it.filter(pod(), odd, even)
        assert result["Nodes"]["items"] == [even]
        assert result["FailedAndUnresolvableNodes"] == {"odd": "node(s) were odd"}
        assert it.prioritize(pod(), even, node("x", score="44"), node("y", score="100")) == {
            "even": 5,
            "x": 4,
            "y": 10,
        }
        assert refusals(it.filter(pod(), node("odd"))) == {}  # the label is gone
        assert refusals(it.filter(pod(), odd)) == {"odd": "node(s) were odd"}


class Counting(Plugin):
    """Says how many nodes it knows."""

    name = "Counting"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unresolvable(f"one of {len(self.handle.snapshot.nodes)}")


def test_nodes_that_are_sent_no_more_are_forgotten() -> None:
    """Not at once: a request of prioritize has only the nodes that passed."""
    with extender(plugins=(Counting,)) as it:
        for sent, known in ((("a", "b", "c"), 3), (("a",), 3), (("a", "b"), 2), (("b",), 2), (("b",), 1)):
            assert set(refusals(it.filter(pod(), *map(node, sent))).values()) == {f"one of {known}"}


def test_pre_filter_refuses_or_restricts() -> None:
    with extender(plugins=(Odd,)) as it:
        assert refusals(it.filter(pod("nowhere"), node("a"))) == {"a": "not today"}
        result = it.filter(pod("restricted"), node("a"), node("b", odd="1"), node("c"))
        assert refusals(result) == {
            "b": "node(s) were odd",
            "c": "node(s) didn't satisfy plugin(s) [Odd]",
        }


def test_a_plugin_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    with extender(plugins=(Odd,)) as it:
        said = 'plugin Odd: running "Odd" filter plugin: RuntimeError: out of order'
        assert it.filter(pod("broken"), node("a"))["Error"] == said
        assert it.filter(pod(), node("a"))["Error"] == ""
    assert "out of order" in caplog.text


def test_a_node_that_makes_no_sense() -> None:
    with extender(plugins=(Odd,)) as it:
        assert "lots" in it.filter(pod(), node("a"), node("b", cpu="lots"))["Error"]
        assert refusals(it.filter(pod(), node("a"))) == {}


def test_node_names_need_the_cache() -> None:
    with extender(plugins=(Odd,)) as it:
        assert "--node-cache-capable" in it.filter(pod(), "a")["Error"]
        assert it.post("/preempt", {}).code == 404  # it would have to know nodes and pods
        assert it.post("/bind", {}).code == 404


# ---- configuration


class Ninety(Plugin):
    name = "Ninety"
    cache_key = CacheKey.NODE

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return 90


CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: another
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: Odd
      - name: Ninety
        weight: 4
  pluginConfig:
  - name: Odd
    args: {most: MOST}
"""


def test_weights_and_args_of_the_configuration() -> None:
    with extender(plugins=(Odd, Ninety), config=CONFIG.replace("MOST", "-1")) as it:
        assert refusals(it.filter(pod(), node("a"))) == {"a": "node(s) had too many pods"}
        assert it.prioritize(pod(), node("a", score="15")) == {"a": 8}  # (15 + 4 · 90) / 5 = 75
    with extender(plugins=(Odd, Ninety)) as it:
        assert it.prioritize(pod(), node("a", score="15")) == {"a": 5}  # (15 + 90) / 2 = 52.5


def test_wrong_args_are_told_with_their_place() -> None:
    with pytest.raises(ConfigError) as caught, extender(plugins=(Odd,), config=CONFIG.replace("MOST", "x")):
        pass
    assert "profiles[1].pluginConfig[0].args.most" in str(caught.value)
    assert ":14:" in str(caught.value)


def test_plugins_without_anything_to_offer() -> None:
    class Waiting(Plugin):
        name = "Waiting"

        def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
            return None

    with pytest.raises(LoadingError, match="plugins Waiting: nothing to offer"), extender(plugins=(Waiting,)):
        pass


def test_plugins_and_handlers_side_by_side() -> None:
    @ext.prioritize
    def seven(node: Node) -> int:
        return 7

    class Only(Plugin):
        name = "Only"

        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
            return None if node.name == "a" else unresolvable("not a")

    with extender(seven, plugins=(Only,)) as it:
        assert refusals(it.filter(pod(), node("a"), node("b"))) == {"b": "not a"}
        assert it.prioritize(pod(), node("a")) == {"a": 7}
    with (
        pytest.raises(LoadingError, match="/prioritize: found handler seven and plugins Ninety"),
        extender(seven, plugins=(Ninety,)),
    ):
        pass


# ---- preempt


def preemption(probe: Pod, **victims: list[str]) -> Preemption:
    meta = {name: MetaVictims([MetaPod(uid) for uid in uids], 2) for name, uids in victims.items()}
    tree = {"metadata": {"name": probe.name, "namespace": "default", "uid": probe.uid}}
    raw = msgspec.Raw(msgspec.json.encode({**tree, "spec": msgspec.to_builtins(probe.spec)}))
    return Preemption(write(ExtenderPreemptionArgs(raw, None, meta)))


@pytest.fixture
def full() -> ServedPlugins:
    """Three nodes of two cpus; on each a pod that takes one and a half, on the last a small one as well."""
    plugins = served("NodeResourcesFit", "NodeAffinity")
    for name in "abc":
        plugins.scheduler.apply(make_node(name, cpu="2", labels={"on": name}))
        large = make_pod(f"large-{name}", requests={"cpu": "1500m"}, node_name=name)
        plugins.scheduler.apply(large)
    plugins.scheduler.apply(make_pod("small", requests={"cpu": "100m"}, node_name="c"))
    return plugins


def uid(plugins: ServedPlugins, name: str) -> str:
    return next(each.uid for each in plugins.scheduler.cluster.pods() if each.name == name)


def test_candidates_that_would_be_refused_again_are_dropped(full: ServedPlugins) -> None:
    probe = make_pod("probe", requests={"cpu": "1"})
    kept = now(
        full.preempt(
            preemption(
                probe,
                a=[uid(full, "large-a")],
                b=["unknown"],
                c=[uid(full, "small")],
                d=[uid(full, "large-b")],
            )
        )
    )
    assert kept == {"a": [uid(full, "large-a")]}
    elsewhere = make_pod("probe", requests={"cpu": "1"}, node_selector={"on": "b"})
    assert now(full.preempt(preemption(elsewhere, a=[uid(full, "large-a")]))) == {}
    assert len(full.scheduler.cluster) == 4  # nothing has happened


class Last(Plugin):
    """Nominates the last candidate."""

    name = "Last"

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> PostFilterResult | Status:
        names = [
            name for name, status in statuses.items() if status.message == "the scheduler found victims here"
        ]
        if pod.name == "hopeless":
            return unschedulable("no")
        assert len(statuses) == 3
        assert [statuses[name].code for name in names] == [unschedulable("").code] * len(names)
        return PostFilterResult(max(names))


def test_post_filter_chooses_among_the_candidates() -> None:
    scheduler, _ = make_scheduler(["Last"], registry_with([Last]))
    plugins = ServedPlugins(scheduler, cached=True)
    for name in "abc":
        scheduler.apply(make_node(name))
        scheduler.apply(make_pod(f"on-{name}", node_name=name))
    given = {name: [uid(plugins, f"on-{name}")] for name in "ab"}
    assert now(plugins.preempt(preemption(make_pod("probe"), **given))) == {"b": given["b"]}
    assert now(plugins.preempt(preemption(make_pod("hopeless"), **given))) == {}


def test_scores_beyond_a_hundred_are_an_error() -> None:
    class TooMuch(Plugin):
        name = "TooMuch"

        def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
            return np.full(len(nodes), 101)

    with extender(plugins=(TooMuch,)) as it:
        reply = it.post("/prioritize", {"Pod": pod(), "Nodes": {"items": [node("a")]}})
        assert reply.code == 500
        assert 'plugin "TooMuch" returns an invalid score 101' in reply.error


def test_pods_of_the_request_keep_their_own_names() -> None:
    """Two pods of one shape share what was computed, and nothing else."""
    with extender(plugins=(Odd,)) as it:
        assert refusals(it.filter(pod("fine"), node("a"))) == {}
        assert refusals(it.filter(pod("nowhere"), node("a"))) == {"a": "not today"}
        assert refusals(it.filter(pod("fine"), node("a"))) == {}
