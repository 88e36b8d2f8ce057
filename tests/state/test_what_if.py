"""A what-if view must say what a table would say in which those pods had come and gone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mooring.framework.nodes import PodPredicate
from mooring.framework.pod import PodInfo
from mooring.state.cluster import ClusterState
from mooring.state.view import WhatIf
from tests.state.facts import PREDICATES, facts
from tests.state.objects import node as make_node
from tests.state.objects import pod as make_pod
from tests.strategies import LATE, examples, nodes, templates


class Case:
    """A cluster, rows of it with pods that may come and go, and which of those are there in the end."""

    def __init__(self, data: st.DataObject) -> None:
        drawn = data.draw(st.lists(nodes(), min_size=1, max_size=5, unique_by=lambda n: str(n["name"])))
        shapes = data.draw(st.lists(templates(), min_size=1, max_size=3))
        self.cluster = ClusterState()
        for fields in drawn:
            self.cluster.add_node(make_node(**fields))
        self.names = list(self.cluster.nodes.names)
        self.shapes = shapes
        self.born = 0
        for _ in range(data.draw(st.integers(0, 12))):
            self.cluster.add_pod(self.draw_pod(data, data.draw(st.sampled_from(self.names))))
        self.rows = data.draw(st.lists(st.integers(0, len(drawn) - 1), min_size=1, unique=True))
        self.removable: list[list[PodInfo]] = []
        self.addable: list[list[PodInfo]] = []
        for row in self.rows:
            there = data.draw(st.permutations(self.cluster.table.nodes[row].pods))
            self.removable.append(there[: data.draw(st.integers(0, 4))])
            count = data.draw(st.integers(0, 2))
            self.addable.append([self.draw_pod(data, self.names[row]) for _ in range(count)])

    def draw_pod(self, data: st.DataObject, name: str) -> PodInfo:
        self.born += 1
        pod = make_pod(f"p{self.born}", on=name, **data.draw(st.sampled_from(self.shapes)))
        if data.draw(st.integers(0, 4)) == 4:
            pod = replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2030-01-01T00:00:00Z"))
        return self.cluster.info(pod)

    def view(self) -> WhatIf:
        return self.cluster.nodes.what_if(np.array(self.rows, np.intp), self.removable, self.addable)

    def switch(self, data: st.DataObject, view: WhatIf) -> None:
        """Switch pods off and on, one position of several rows at a time or many at once."""
        for _ in range(data.draw(st.integers(0, 6))):
            present = data.draw(st.booleans())
            if view.width and data.draw(st.booleans()):
                bits = st.lists(st.booleans(), min_size=len(view), max_size=len(view))
                view.set_present(
                    data.draw(st.integers(0, view.width - 1)), np.array(data.draw(bits)), present
                )
            else:
                size = len(view) * view.width
                which = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
                view.set_all_present(np.array(which, np.bool_).reshape(len(view), view.width), present)

    def really(self, view: WhatIf) -> ClusterState:
        """A cluster with the pods that the view has."""
        cluster = ClusterState()
        for row in self.cluster.table.nodes:
            cluster.add_node(row.node)
        gone = {pod.uid for k in range(len(view)) for pod in view.changes(k)[0]}
        for pod in self.cluster.pods():
            if pod.uid not in gone:
                cluster.add_pod(cluster.info(pod.pod))
        for k in range(len(view)):
            for pod in view.changes(k)[1]:
                cluster.add_pod(cluster.info(pod.pod))
        return cluster


def check(view: WhatIf, real: ClusterState) -> None:
    expected = facts(real.nodes)
    supposed = facts(view)
    assert supposed == {name: expected[name] for name in view.names}


def moved(view: WhatIf, i: int, predicate: PodPredicate) -> int:
    """How many more matching pods a row has than really; terminating ones count whatever it says."""
    removed, added = view.changes(i)
    return sum(predicate.matches(p.shape) for p in added) - sum(predicate.matches(p.shape) for p in removed)


@given(st.data())
@examples(150)
def test_a_view_says_what_a_table_with_those_pods_would_say(data: st.DataObject) -> None:
    case = Case(data)
    view = case.view()
    before = facts(case.cluster.nodes)
    check(view, case.cluster)  # it begins as the plain truth
    case.switch(data, view)
    check(view, case.really(view))
    for predicate in PREDICATES:
        assert view.delta(predicate).tolist() == [moved(view, i, predicate) for i in range(len(view))]
    assert facts(case.cluster.nodes) == before  # asking changes nothing


@given(st.data())
@examples(60)
def test_a_part_of_a_view_is_the_same_question_for_fewer_rows(data: st.DataObject) -> None:
    case = Case(data)
    view = case.view()
    case.switch(data, view)
    keep = data.draw(st.lists(st.integers(0, len(view) - 1), min_size=1, unique=True))
    part = view.part(np.array(keep, np.intp))
    assert part.names == [view.names[k] for k in keep]
    assert [part.changes(i) for i in range(len(part))] == [view.changes(k) for k in keep]
    told = facts(view)
    assert facts(part) == {name: told[name] for name in part.names}
    case.switch(data, part)  # what is switched in the part is not switched in the whole
    check(part, case.really(part))
    assert facts(view) == told


@given(st.data())
@examples(30)
def test_what_is_supposed_of_several_rows_at_once_is_supposed_of_each_alone(data: st.DataObject) -> None:
    case = Case(data)
    view = case.view()
    case.switch(data, view)
    told = facts(view)
    for k, row in enumerate(case.rows):
        rows: npt.NDArray[np.intp] = np.array([row], np.intp)
        alone = case.cluster.nodes.what_if(rows, [case.removable[k]], [case.addable[k]])
        for j, present in enumerate(view.present[k].tolist()):
            if j < alone.width:
                alone.set_present(j, np.ones(1, np.bool_), present)
        assert facts(alone) == {view.names[k]: told[view.names[k]]}


def test_supposing_a_pod_with_a_resource_nobody_has_seen() -> None:
    cluster = ClusterState()
    cluster.add_node(make_node("n"))
    pod = cluster.info(make_pod("p", {LATE: "2", "cpu": "1"}))
    view = cluster.nodes.what_if(np.array([0]), [[]], [[pod]])
    view.set_present(0, np.ones(1, np.bool_), True)
    assert view.requested[LATE].tolist() == [2]
    assert view.free[LATE].tolist() == [-2]
    assert view[0].requested == {"cpu": 1000, LATE: 2}
    assert cluster.nodes.requested[LATE].tolist() == [0]


def test_a_row_without_a_pod_at_a_position_is_left_alone() -> None:
    cluster = ClusterState()
    for name in ("n0", "n1"):
        cluster.add_node(make_node(name))
    cluster.add_pod(cluster.info(make_pod("p", {"cpu": "1"}, on="n0")))
    on_first = list(cluster.table.nodes[0].pods)
    view = cluster.nodes.what_if(np.array([0, 1]), [on_first, []], [[], []])
    view.set_present(0, np.ones(2, np.bool_), False)
    assert view.has(0).tolist() == [True, False]
    assert view.pod_count.tolist() == [0, 0]
    assert view.requested["cpu"].tolist() == [0, 0]
    assert cluster.nodes.requested["cpu"].tolist() == [1000, 0]


def test_a_view_of_no_pods_at_all() -> None:
    cluster = ClusterState()
    cluster.add_node(make_node("n"))
    view = cluster.nodes.what_if(np.array([0]), [[]], [[]])
    assert view.width == 0
    assert facts(view) == facts(cluster.nodes)
    assert view.changes(0) == ([], [])


@pytest.mark.parametrize("mask", [[True, False, True], [False, False, False], [True, True, True]])
def test_the_rows_of_a_mask(mask: list[bool]) -> None:
    cluster = ClusterState()
    for i in range(3):
        cluster.add_node(make_node(f"n{i}"))
        cluster.add_pod(cluster.info(make_pod(f"p{i}", {"cpu": i}, on=f"n{i}")))
    view = cluster.nodes.where(np.array(mask))
    names = [f"n{i}" for i in range(3) if mask[i]]
    everything = facts(cluster.nodes)
    assert len(view) == len(names)
    assert list(view.names) == names
    assert facts(view) == {name: everything[name] for name in names}
