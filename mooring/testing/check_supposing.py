"""Preemption and nominations ask "what if": the answer must be what it is when that comes true."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mooring.api.objects import Pod
from mooring.framework.cache_key import CacheKey
from mooring.framework.pod import PodInfo
from mooring.runtime.engine_nodes import EngineNodes
from mooring.testing.check_grains import FILTERS, forms, same_answers
from mooring.testing.pods import make_pod
from mooring.testing.subject import Cycle, Refusal, Subject


def check_supposing(subject: Subject, pods: Iterable[Pod]) -> None:
    """Suppose that a pod leaves or joins each node, and compare with what the filter says once it has.

    Without add_pod and remove_pod, a plugin without a cache key sees the pods of the node that it is
    asked about change, and no more; nothing is expected of it then.
    """
    methods = forms(subject, FILTERS)
    extended = subject.has("add_pod", "remove_pod")
    if not methods or (not extended and subject.plugin.cache_key is CacheKey.NONE):
        return
    for pod in pods:
        cycle = subject.before_filter(pod)
        if cycle.taking_part:
            _suppose_changes(subject, pod, cycle)


def _suppose_changes(subject: Subject, pod: Pod, cycle: Cycle) -> None:
    for row, node in enumerate(list(subject.nodes)):
        there = next((each for each in node.pods if not each.terminating), None)
        if there is not None:
            _suppose(subject, pod, cycle, row, there, gone=True)
        newcomer = make_pod("newcomer", node_name=node.name, labels={"app": "web"}, requests={"cpu": "1"})
        _suppose(subject, pod, cycle, row, subject.info(newcomer), gone=False)


def _suppose(subject: Subject, pod: Pod, cycle: Cycle, row: int, other: PodInfo, *, gone: bool) -> None:
    here, coming = ([other], []) if gone else ([], [other])
    view = subject.nodes.what_if(np.array([row], np.intp), [here], [coming])
    view.set_present(0, np.ones(1, np.bool_), not gone)
    supposed = _supposed(subject, cycle, view)
    scheduler = subject.cluster.scheduler
    change, undo = (scheduler.delete, scheduler.apply) if gone else (scheduler.apply, scheduler.delete)
    change(other.pod)
    try:
        fresh = subject.before_filter(pod)
        if not fresh.taking_part:
            return
        method = forms(subject, FILTERS)[0]
        expected = subject.refusals(method, fresh, subject.nodes.take(slice(row, row + 1)))
    finally:
        undo(other.pod)
    what = f"pod {other.key} {'removed from' if gone else 'added to'} the node"
    ways = (f"if supposed: {what}", "when it is really so")
    same_answers(subject, cycle, view.names, "filter", supposed, expected, *ways)


def _supposed(subject: Subject, cycle: Cycle, view: EngineNodes) -> list[Refusal]:
    """The answer about the view; add_pod and remove_pod must leave the rest of the cycle alone."""
    method = forms(subject, FILTERS)[0]
    if not subject.has("add_pod", "remove_pod"):
        return subject.supposed(cycle, view)
    before = subject.refusals(method, cycle, subject.nodes)
    supposed = subject.supposed(cycle, view)
    after = subject.refusals(method, cycle, subject.nodes)
    hint = "after them (does what pre_filter writes need a clone() method?)"
    ways = ("before add_pod and remove_pod", hint)
    same_answers(subject, cycle, subject.nodes.names, method, before, after, *ways)
    return supposed
