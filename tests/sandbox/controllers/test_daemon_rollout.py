"""Rolling updates of DaemonSets, step by step, with pods that become ready or not as they please."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.meta import Condition, ObjectMeta
from mooring.api.objects import Pod, PodStatus
from mooring.api.workloads import DaemonSet, DaemonSetSpec, RollingUpdate, UpdateStrategy
from mooring.sandbox.controllers.daemon_rollout import OnNode, limits, next_steps

NODES = st.integers(1, 12)
LIMIT = st.one_of(st.integers(1, 5), st.integers(1, 100).map("{}%".format))


def daemon_set(rolling: RollingUpdate) -> DaemonSet:
    return DaemonSet(spec=DaemonSetSpec(update_strategy=UpdateStrategy(rolling_update=rolling)))


def pod(name: str, ready: bool) -> Pod:
    conditions = [Condition(type="Ready", status=str(ready))]
    return Pod(metadata=ObjectMeta(name=name), status=PodStatus(phase="Running", conditions=conditions))


def available(pod: Pod) -> bool:
    return pod.ready


def seen(count: int, new: dict[str, Pod], old: dict[str, Pod]) -> dict[str, OnNode]:
    names = map(str, range(count))
    return {
        name: OnNode(True, [new[name]] if name in new else [], [old[name]] if name in old else [])
        for name in names
    }


@settings(deadline=None)
@given(NODES, LIMIT, st.randoms(use_true_random=False))
def test_never_more_are_taken_down_than_may_be_missing(count: int, limit: int | str, chance: Random) -> None:
    set = daemon_set(RollingUpdate(max_unavailable=limit))
    allowed = limits(set, count)[0]
    old = {str(n): pod(f"old-{n}", chance.random() < 0.7) for n in range(count)}
    new: dict[str, Pod] = {}
    for _ in range(20 * count):
        nodes = seen(count, new, old)
        down = sum(not any(map(available, [*each.new, *each.old])) for each in nodes.values())
        steps = next_steps(set, nodes, available, count)
        healthy = [each for each in steps.delete if available(each)]
        assert steps.create == []
        assert not healthy or down + len(healthy) <= allowed
        for each in steps.delete:
            node = each.name.removeprefix("old-")
            del old[node]
            new[node] = pod(f"new-{node}", False)
        for node in new:
            if chance.random() < 0.5:
                new[node] = pod(f"new-{node}", True)
        if not old:
            break
    assert not old, "an update that nothing hinders for ever comes to its end"


@settings(deadline=None)
@given(NODES, LIMIT)
def test_a_surge_keeps_every_node_served(count: int, limit: int | str) -> None:
    set = daemon_set(RollingUpdate(max_surge=limit, max_unavailable=0))
    allowed = limits(set, count)[1]
    nodes = {str(n): OnNode(True, [], [pod(f"old-{n}", True)]) for n in range(count)}
    rounds = 0
    while any(each.old for each in nodes.values()):
        steps = next_steps(set, nodes, available, count)
        assert all(
            any(map(available, each.new))
            for each in nodes.values()
            if each.old and each.old[0] in steps.delete
        )
        for name in steps.create:
            nodes[name] = nodes[name]._replace(new=[pod(f"new-{name}", False)])
        assert (
            sum(bool(each.new and each.old and not available(each.new[0])) for each in nodes.values())
            <= allowed
        )
        for name, each in nodes.items():
            gone = {pod.name for pod in steps.delete}
            nodes[name] = OnNode(
                True,
                [pod(one.name, True) for one in each.new],
                [one for one in each.old if one.name not in gone],
            )
        rounds += 1
        assert rounds <= 2 * count + 2
