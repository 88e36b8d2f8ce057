"""Filter and score in both forms: the same answer whoever asks, about how many nodes, however often."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from mooring.api.objects import Pod
from mooring.framework.nodes import Depends, Nodes
from mooring.framework.pod import PodInfo
from mooring.testing.pods import make_pod
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
            _same(subject, cycle, nodes.names, method, whole, again, "asked once", "asked again")
            _rows_agree(subject, cycle, method, subject.refusals, whole)
        _one_by_one_backwards(subject, cycle, methods, whole)
        _check_supposing(subject, pod, cycle)


def check_scores(subject: Subject, pods: Iterable[Pod]) -> None:
    methods = forms(subject, SCORES)
    for pod in pods if methods else ():
        cycle = subject.before_score(pod)
        if cycle is None or not cycle.taking_part:
            continue
        scores = _both_agree(subject, cycle, methods, subject.scores)
        subject.normalized(cycle, scores, cycle.candidates)
        _check_alone(subject, pod, methods[0])
        if subject.plugin.depends is not Depends.ANYTHING:
            # Such answers are kept by row, whether or not the node is feasible for this pod.
            cycle.candidates = subject.nodes
            scores = _both_agree(subject, cycle, methods, subject.scores)
            for method in methods:
                _rows_agree(subject, cycle, method, subject.scores, scores)


def _check_alone(subject: Subject, pod: Pod, method: str) -> None:
    """With one candidate all scores are equal: who divides by their spread divides by zero."""
    cycle = subject.before_score(pod, at_most=1)
    if cycle is not None and cycle.taking_part:
        scores = subject.scores(method, cycle, cycle.candidates)
        subject.normalized(cycle, scores, cycle.candidates)


def _both_agree(
    subject: Subject, cycle: Cycle, methods: Sequence[str], ask: Callable[[str, Cycle, Nodes], list[A]]
) -> list[A]:
    """The answer of the forms there are, which is one answer."""
    nodes = cycle.candidates
    first, *others = [ask(method, cycle, nodes) for method in methods]
    for method, other in zip(methods[1:], others, strict=True):
        _same(subject, cycle, nodes.names, methods[0], first, other, methods[0], method)
    return first


def _rows_agree(
    subject: Subject,
    cycle: Cycle,
    method: str,
    ask: Callable[[str, Cycle, Nodes, str], list[A]],
    whole: Sequence[A],
) -> None:
    """The framework asks again about some rows only; each must get the answer that it gets among all."""
    for rows, where in _parts(len(whole)):
        part = subject.nodes.take(rows)
        answer = ask(method, cycle, part, where)
        expected = [whole[row] for row in rows.tolist()]
        _same(subject, cycle, part.names, method, expected, answer, "asked about all nodes", where)


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
    _same(subject, cycle, backwards.names, "filter", list(reversed(whole)), answer, *ways)


def _same(
    subject: Subject,
    cycle: Cycle,
    names: Sequence[str],
    method: str,
    expected: Sequence[object],
    found: Sequence[object],
    way: str,
    other_way: str,
) -> None:
    for name, mine, other in zip(names, expected, found, strict=True):
        if mine != other:
            place = subject.at(method, cycle.pod, name)
            place.fail(f"two answers to one question\n  {way}: {mine}\n  {other_way}: {other}")


# ---- hypothetical pods


def _check_supposing(subject: Subject, pod: Pod, cycle: Cycle) -> None:
    """Preemption and nominations ask "what if": the answer must be what it is when that comes true."""
    extended = subject.has("add_pod", "remove_pod")
    if not extended and subject.plugin.depends is Depends.ANYTHING:
        return  # without extensions such a plugin sees the pods of the node it is asked about, and no more
    before = subject.refusals(forms(subject, FILTERS)[0], cycle, subject.nodes)
    for row, node in enumerate(list(subject.nodes)):
        there = next((each for each in node.pods if not each.terminating), None)
        newcomer = make_pod("newcomer", node_name=node.name, labels={"app": "web"}, requests={"cpu": "1"})
        if there is not None:
            _suppose(subject, pod, cycle, row, there, gone=True)
        _suppose(subject, pod, cycle, row, subject.info(newcomer), gone=False)
    if extended:
        after = subject.refusals(forms(subject, FILTERS)[0], cycle, subject.nodes)
        hint = "asked again (does what pre_filter writes need a clone() method?)"
        ways = ("asked before add_pod and remove_pod", hint)
        _same(subject, cycle, subject.nodes.names, "filter", before, after, *ways)


def _suppose(subject: Subject, pod: Pod, cycle: Cycle, row: int, other: PodInfo, *, gone: bool) -> None:
    nodes = subject.nodes
    here, coming = ([other], []) if gone else ([], [other])
    view = nodes.what_if(np.array([row], np.intp), [here], [coming])
    view.set_present(0, np.ones(1, np.bool_), not gone)
    supposed = subject.supposed(cycle, view)
    scheduler = subject.cluster.scheduler
    change, undo = (scheduler.delete, scheduler.apply) if gone else (scheduler.apply, scheduler.delete)
    change(other.pod)
    try:
        fresh = subject.before_filter(pod)
        if not fresh.taking_part:
            return
        found = subject.refusals(forms(subject, FILTERS)[0], fresh, subject.nodes.take(slice(row, row + 1)))
    finally:
        undo(other.pod)
    what = f"pod {other.key} {'removed from' if gone else 'added to'} the node"
    ways = (f"if supposed: {what}", "when it is really so")
    _same(subject, cycle, view.names, "filter", supposed, found, *ways)
