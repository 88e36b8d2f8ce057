"""Is `cache_key` wide enough? Answers are cached until what it names changes, so nothing else may
change them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from mooring.api.meta import KubeObject, ObjectMeta
from mooring.api.objects import Node, NodeStatus, Pod, PodSpec
from mooring.framework.cache_key import CacheKey
from mooring.framework.status import SKIP_SHAPE
from mooring.testing.answers import show
from mooring.testing.check_grains import FILTERS, SCORES, forms
from mooring.testing.clock import START
from mooring.testing.subject import Cycle, Subject

Answers = Mapping[str, Mapping[str, object]]  # by method and node name
DAY = 86_400.0
LIKE = "-like"
HINT = "hint: choose a key that covers what the plugin reads; CacheKey.NONE turns caching off"


class Scene(NamedTuple):
    """A cluster at a time. The nodes in `compared` are as they were; `difference` says what is not.
    `suffix` is what their names end in here."""

    nodes: Sequence[Node]
    bound: Sequence[Pod]
    objects: Sequence[KubeObject]
    now: float = START
    difference: str = ""
    compared: frozenset[str] = frozenset()
    suffix: str = ""


def check_cache_key(make: Callable[[Scene], Subject], base: Scene, pods: Sequence[Pod]) -> None:
    """Ask in the base scene and in others that differ from it only in what `cache_key` does not cover."""
    base = base._replace(compared=frozenset(node.name for node in base.nodes))
    subject = make(base)
    answers = [_Answers(subject, pod) for pod in pods]
    for mine, pod in zip(answers, pods, strict=True):
        twin = _twin(pod)
        if subject.info(twin).shape is subject.info(pod).shape:
            difference = "a pod of the same shape, of another name and without annotations"
            mine.compare(_Answers(subject, twin), base._replace(difference=difference))
    for scene in _others(base, subject.plugin.cache_key):
        other = make(scene)
        for mine, pod in zip(answers, pods, strict=True):
            mine.compare(_Answers(other, pod), scene)


def _others(base: Scene, cache_key: CacheKey) -> Iterator[Scene]:
    """Scenes in which some nodes are as they were, and what `cache_key` does not cover is not."""
    if cache_key is CacheKey.NONE:
        return
    for start in (0, 1) if cache_key is not CacheKey.ALL_NODES else ():
        kept = base.nodes[start::2]
        names = frozenset(node.name for node in kept)
        mine = [pod for pod in base.bound if pod.spec.node_name in names]
        theirs = [pod for pod in base.bound if pod.spec.node_name not in names]
        others = [node.name for node in base.nodes if node.name not in names]
        moved = [replace(p, spec=replace(p.spec, node_name=others[0])) for p in theirs]
        scene = base._replace(compared=names)
        yield scene._replace(difference="other nodes removed", nodes=kept, bound=mine)
        yield scene._replace(difference="pods of other nodes moved among them", bound=mine + moved)
    yield base._replace(difference="claims, volumes, services and the like removed", objects=())
    yield base._replace(difference="ten days later", now=base.now + 10 * DAY)
    if cache_key is CacheKey.RESOURCES:
        nodes, bound = [_like_node(node) for node in base.nodes], [_like_pod(pod) for pod in base.bound]
        difference = "a node of equal amounts, of another name and with nothing else in common"
        yield base._replace(difference=difference, nodes=nodes, bound=bound, suffix=LIKE)
    elif cache_key is not CacheKey.NODE_AND_PODS:
        yield base._replace(difference="pods removed", bound=())


def _twin(pod: Pod) -> Pod:
    """A pod that differs in what does not belong to its shape."""
    meta = replace(pod.metadata, name=f"{pod.name}-twin", uid=f"{pod.uid}-twin", annotations={})
    return replace(pod, metadata=replace(meta, creation_timestamp=None))


def _like_node(node: Node) -> Node:
    """Another node that has as much of everything."""
    return Node(
        metadata=ObjectMeta(name=node.name + LIKE), status=NodeStatus(allocatable=node.status.allocatable)
    )


def _like_pod(pod: Pod) -> Pod:
    """A pod that requests as much, on the node like its own."""
    meta = ObjectMeta(name=pod.name + LIKE, namespace="elsewhere", uid=pod.uid + LIKE)
    spec = PodSpec(
        node_name=pod.spec.node_name + LIKE,
        containers=pod.spec.containers,
        init_containers=pod.spec.init_containers,
        overhead=pod.spec.overhead,
        resources=pod.spec.resources,
    )
    return Pod(metadata=meta, spec=spec)


class _Answers:
    """What the plugin says about one pod in one scene."""

    def __init__(self, subject: Subject, pod: Pod) -> None:
        self._subject = subject
        self._pod = pod

    @cached_property
    def _filter_cycle(self) -> Cycle | None:
        return self._subject.before_filter(self._pod) if self._subject.has("pre_filter", *FILTERS) else None

    @cached_property
    def _score_cycle(self) -> Cycle | None:
        return self._subject.before_score(self._pod) if self._subject.has("pre_score", *SCORES) else None

    @cached_property
    def _answers(self) -> Answers:
        """None of a method whose plugin does not take part: then the framework keeps nothing either."""
        return self._ask(self._filter_cycle, self._score_cycle)

    def _with_state_of(self, other: _Answers) -> Answers:
        """The answers with what pre_filter and pre_score wrote in another scene."""
        cycles = [
            None if cycle is None else self._subject.resumed(cycle, self._pod)
            for cycle in (other._filter_cycle, other._score_cycle)
        ]
        return self._ask(*cycles)

    def _ask(self, filter_cycle: Cycle | None, score_cycle: Cycle | None) -> Answers:
        subject, nodes = self._subject, self._subject.nodes
        answers: dict[str, Mapping[str, object]] = {}
        if filter_cycle is not None and filter_cycle.taking_part:
            for method in forms(subject, FILTERS):
                refusals = subject.refusals(method, filter_cycle, nodes)
                answers[method] = dict(zip(nodes.names, refusals, strict=True))
        if score_cycle is not None and score_cycle.taking_part:
            for method in forms(subject, SCORES):
                scores = subject.scores(method, score_cycle, nodes)
                answers[method] = dict(zip(nodes.names, scores, strict=True))
        return answers

    def compare(self, other: _Answers, scene: Scene) -> None:
        difference = scene.difference
        self._keeps_promise("pre_filter", self._filter_cycle, other._filter_cycle, difference)
        self._keeps_promise("pre_score", self._score_cycle, other._score_cycle, difference)
        if self._subject.plugin.cache_key is CacheKey.NONE:
            return
        self._follows_from_shape("pre_filter", self._filter_cycle, other._filter_cycle, difference)
        self._follows_from_shape("pre_score", self._score_cycle, other._score_cycle, difference)
        self._compare(other._answers, scene)
        if self._subject.has("pre_filter", "pre_score"):
            kept = f"{difference}, with what pre_filter and pre_score wrote before"
            self._compare(other._with_state_of(self), scene._replace(difference=kept))

    def _compare(self, others: Answers, scene: Scene) -> None:
        for method, answers in others.items():
            mine = self._answers.get(method)
            for name in sorted(scene.compared) if mine is not None else ():
                answer = answers[name + scene.suffix]
                if mine is not None and mine[name] != answer:
                    place = self._subject.at(method, self._subject.info(self._pod), name)
                    key = self._subject.plugin.cache_key.name
                    place.fail(
                        f"cache_key = {key}: the answer changed, the key did not\n  before: {mine[name]}\n"
                        f"  {scene.difference}: {answer}\n  {HINT}"
                    )

    def _follows_from_shape(
        self, method: str, mine: Cycle | None, other: Cycle | None, difference: str
    ) -> None:
        if mine is None or other is None or mine.answer == other.answer:
            return
        self._subject.at(method, mine.pod).fail(
            f"cache_key = {self._subject.plugin.cache_key.name}: the answer changed, the pod's shape did not"
            f"\n  before: {show(mine.answer)}\n  {difference}: {show(other.answer)}\n  {HINT}"
        )

    def _keeps_promise(self, method: str, mine: Cycle | None, other: Cycle | None, difference: str) -> None:
        if mine is None or other is None or mine.answer is not SKIP_SHAPE or other.skipped:
            return
        self._subject.at(method, mine.pod).fail(
            f"skip(shape=True) promises to skip every pod of this shape\n  before: skipped\n"
            f"  {difference}: {show(other.answer)}\n  hint: return skip()"
        )
