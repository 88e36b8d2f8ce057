"""Check filter and score in both forms: results agree for any number of nodes and calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from mooring.api.objects import Pod
from mooring.framework.cache_key import CacheKey
from mooring.runtime.engine_nodes import EngineNodes
from mooring.runtime.groups import scores_groups
from mooring.testing.subject import Cycle, Subject

A = TypeVar("A")

FILTERS = ("filter", "filter_nodes")
SCORES = ("score", "score_nodes")


def forms(subject: Subject, methods: Sequence[str]) -> list[str]:
    return [method for method in methods if subject.has(method)]


def check_filters(subject: Subject, pods: Iterable[Pod]) -> None:
    methods = forms(subject, FILTERS)
    for pod in pods if methods else ():
        cycle = subject.before_filter(pod)
        if not cycle.taking_part:
            continue
        nodes = subject.nodes
        whole = _both_agree(subject, cycle, methods, subject.refusals)
        for method in methods:
            again = subject.refusals(method, cycle, nodes, "asked again")
            same_answers(subject, cycle, nodes.names, method, whole, again, "asked once", "asked again")
            _rows_agree(subject, cycle, method, subject.refusals, whole)
        _one_by_one_backwards(subject, cycle, methods, whole)


def check_scores(subject: Subject, pods: Iterable[Pod]) -> None:
    methods = forms(subject, SCORES)
    for pod in pods if methods else ():
        cycle = subject.before_score(pod)
        if cycle is None or not cycle.taking_part:
            continue
        scores = _both_agree(subject, cycle, methods, subject.scores)
        normalized = subject.normalized(cycle, scores, cycle.candidates)
        if scores_groups(type(subject.plugin)):
            _check_groups(subject, cycle, methods[0], scores, normalized)
        _check_alone(subject, pod, methods[0])
        if subject.plugin.cache_key is not CacheKey.NONE:
            _check_by_value(subject, cycle, scores)
            # Such answers are kept by row, whether or not the node is feasible for this pod.
            cycle.candidates = subject.nodes
            scores = _both_agree(subject, cycle, methods, subject.scores)
            for method in methods if subject.plugin.cache_key is not CacheKey.ALL_NODES else ():
                _rows_agree(subject, cycle, method, subject.scores, scores)


def _check_alone(subject: Subject, pod: Pod, method: str) -> None:
    """With one candidate all scores are equal: who divides by their spread divides by zero."""
    cycle = subject.before_score(pod, at_most=1)
    if cycle is not None and cycle.taking_part:
        scores = subject.scores(method, cycle, cycle.candidates)
        subject.normalized(cycle, scores, cycle.candidates)


def _check_groups(
    subject: Subject, cycle: Cycle, method: str, scores: Sequence[int], normalized: Sequence[int]
) -> None:
    """Groups of nodes have the scores that the nodes have, raw and normalised."""
    names = cycle.candidates.names
    raw, grouped = subject.grouped(cycle, cycle.candidates)
    same_answers(subject, cycle, names, "score_groups", scores, raw, method, "score_groups, raw")
    same_answers(subject, cycle, names, "score_groups", normalized, grouped, "normalised", "score_groups")


def _check_by_value(subject: Subject, cycle: Cycle, scores: Sequence[int]) -> None:
    """Normalised scores are kept as long as there are the same raw ones, so no more may matter."""
    if not subject.has("normalize_score"):
        return
    nodes = cycle.candidates
    whole = subject.normalized(cycle, scores, nodes)
    positions = np.array([scores.index(score) for score in sorted(set(scores))], np.intp)
    part = nodes.part(positions)
    alone = subject.normalized(cycle, [scores[i] for i in positions.tolist()], part)
    ways = ("among all candidates", "among one candidate for each score")
    expected = [whole[i] for i in positions.tolist()]
    same_answers(subject, cycle, part.names, "normalize_score", expected, alone, *ways)


def _both_agree(
    subject: Subject, cycle: Cycle, methods: Sequence[str], ask: Callable[[str, Cycle, EngineNodes], list[A]]
) -> list[A]:
    """The answer of the forms there are, which is one answer."""
    nodes = cycle.candidates
    first, *others = [ask(method, cycle, nodes) for method in methods]
    for method, other in zip(methods[1:], others, strict=True):
        same_answers(subject, cycle, nodes.names, methods[0], first, other, methods[0], method)
    return first


def _rows_agree(
    subject: Subject,
    cycle: Cycle,
    method: str,
    ask: Callable[[str, Cycle, EngineNodes, str], list[A]],
    whole: Sequence[A],
) -> None:
    """The framework asks again about some rows only; each must get the answer that it gets among all."""
    for rows, where in _parts(len(whole)):
        part = subject.nodes.take(rows)
        answer = ask(method, cycle, part, where)
        expected = [whole[row] for row in rows.tolist()]
        same_answers(subject, cycle, part.names, method, expected, answer, "asked about all nodes", where)


def _parts(length: int) -> Iterator[tuple[np.ndarray[tuple[int], np.dtype[np.intp]], str]]:
    yield np.arange(0, length, 2, dtype=np.intp), "asked about every second node"
    for row in range(length):
        yield np.array([row], np.intp), "asked about this node alone"


def _one_by_one_backwards(subject: Subject, cycle: Cycle, methods: Sequence[str], whole: Sequence[A]) -> None:
    """What filter says about one node must not follow from which node was asked about before."""
    if "filter" not in methods:
        return
    rows = np.arange(len(subject.nodes), dtype=np.intp)[::-1]
    backwards = subject.nodes.take(rows)
    answer = subject.refusals("filter", cycle, backwards)
    ways = ("nodes asked about in order", "in reverse order")
    same_answers(subject, cycle, backwards.names, "filter", list(reversed(whole)), answer, *ways)


def same_answers(
    subject: Subject,
    cycle: Cycle,
    names: Sequence[str],
    method: str,
    expected: Sequence[object],
    actual: Sequence[object],
    way: str,
    other_way: str,
) -> None:
    for name, mine, other in zip(names, expected, actual, strict=True):
        if mine != other:
            place = subject.at(method, cycle.pod, name)
            place.fail(f"two answers to one question\n  {way}: {mine}\n  {other_way}: {other}")
