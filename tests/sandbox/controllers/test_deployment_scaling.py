"""The arithmetic of Deployments: percentages as Kubernetes rounds them, limits that hold at every step."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.meta import LabelSelector, ObjectMeta
from mooring.api.workloads import (
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdateDeployment,
)
from mooring.sandbox.controllers.deployment_history import (
    LONGEST_HISTORY,
    REVISION,
    REVISION_HISTORY,
    annotations_of_new,
    outdated,
    replica_set_body,
    split,
)
from mooring.sandbox.controllers.deployment_scaling import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    fenceposts,
    max_surge,
    max_unavailable,
    size_of_new,
    sizes_of_old,
    sizes_when_scaled,
    total_size,
)
from mooring.sandbox.controllers.templates import hash_of


def deployment(replicas: int, surge: int | str = "25%", unavailable: int | str = "25%") -> Deployment:
    rolling = RollingUpdateDeployment(max_surge=surge, max_unavailable=unavailable)
    spec = DeploymentSpec(replicas=replicas, strategy=DeploymentStrategy(rolling_update=rolling))
    return Deployment(metadata=ObjectMeta(name="web"), spec=spec)


def replica_set(
    name: str, size: int, available: int = 0, annotations: dict[str, str] | None = None
) -> ReplicaSet:
    created = f"2030-01-01T00:00:{name}Z"
    return ReplicaSet(
        metadata=ObjectMeta(name=name, annotations=annotations or {}, creation_timestamp=created),
        spec=ReplicaSetSpec(replicas=size),
        status=ReplicaSetStatus(replicas=size, available_replicas=available),
    )


# ---- limits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (10, "25%", "25%", (3, 2)),  # up and down
        (1, "25%", "25%", (1, 0)),
        (3, 0, "10%", (0, 1)),  # nothing at all would be nothing for ever
        (2, "0%", "1%", (0, 1)),
        (2, "1%", "0%", (1, 0)),
        (5, 2, 0, (2, 0)),
        (5, "150%", "100%", (8, 5)),
        (0, "25%", "25%", (0, 1)),
    ],
)
def test_fenceposts(
    replicas: int, surge: int | str, unavailable: int | str, expected: tuple[int, int]
) -> None:
    assert fenceposts(deployment(replicas, surge, unavailable)) == expected


def test_no_more_pods_can_be_unavailable_than_there_are() -> None:
    assert max_unavailable(deployment(3, 0, 10)) == 3
    assert max_unavailable(deployment(0, 0, 10)) == 0


# ---- rolling out -----------------------------------------------------------------------------------------


class World(NamedTuple):
    """A rollout in numbers: sizes, and how many are available, of the new ReplicaSet and the old ones."""

    new: tuple[int, int]
    old: list[tuple[int, int]]


@st.composite
def rollouts(draw: st.DrawFn) -> tuple[Deployment, World]:
    limits = st.integers(0, 6) | st.integers(0, 100).map(lambda percents: f"{percents}%")
    found = deployment(draw(st.integers(1, 20)), draw(limits), draw(limits))
    sizes = draw(st.lists(st.integers(0, 12), min_size=1, max_size=3))
    old = [(size, draw(st.integers(0, size))) for size in sizes]
    new = draw(st.integers(0, found.spec.replicas))
    return found, World((new, draw(st.integers(0, new))), old)


def sets(world: World) -> tuple[ReplicaSet, list[ReplicaSet]]:
    old = [replica_set(f"{10 + number}", *counts) for number, counts in enumerate(world.old)]
    return replica_set("59", *world.new), old


@given(rollouts())
def test_a_step_keeps_to_the_limits(rollout: tuple[Deployment, World]) -> None:
    """What is added stays within the surge; what is taken away of available pods leaves enough of them."""
    wanted, world = rollout
    new, old = sets(world)
    everything = total_size(old, [new])
    size = size_of_new(wanted, new.spec.replicas, everything)
    added = size - new.spec.replicas
    assert added == 0 or everything + added <= wanted.spec.replicas + max_surge(wanted)
    assert size <= wanted.spec.replicas

    sizes = sizes_of_old(wanted, new, old)
    by_name = {rs.name: smaller for rs, smaller in sizes}
    assert all(0 <= smaller < rs.spec.replicas for rs, smaller in sizes)
    before = new.status.available_replicas + sum(rs.status.available_replicas for rs in old)
    left = new.status.available_replicas + sum(
        min(rs.status.available_replicas, by_name.get(rs.name, rs.spec.replicas)) for rs in old
    )
    assert left == before or left >= wanted.spec.replicas - max_unavailable(wanted)


@given(rollouts())
def test_a_rollout_whose_pods_get_ready_comes_to_its_end(rollout: tuple[Deployment, World]) -> None:
    wanted, world = rollout
    new, old = sets(world)
    for _ in range(80):
        size = size_of_new(wanted, new.spec.replicas, total_size(old, [new]))
        if size != new.spec.replicas:
            new = replica_set("59", size, size)
            continue
        left = {rs.name: rs.spec.replicas for rs in old}
        left |= {rs.name: number for rs, number in sizes_of_old(wanted, new, old)}
        old = [replica_set(name, size, size) for name, size in left.items()]
        new = replica_set("59", new.spec.replicas, new.spec.replicas)
    assert new.spec.replicas == wanted.spec.replicas
    assert total_size(old) == 0


# ---- scaling in proportion ---------------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 30), min_size=2, max_size=5), st.integers(0, 60), st.integers(1, 5), st.booleans()
)
def test_what_is_shared_out_adds_up(counts: list[int], replicas: int, surge: int, known: bool) -> None:
    wanted = deployment(replicas, surge, 0)
    noted = {MAX_REPLICAS: str(sum(counts)), DESIRED_REPLICAS: str(sum(counts))} if known else {}
    wanted.status.replicas = sum(counts)
    present = [replica_set(f"{10 + number}", count, 0, noted) for number, count in enumerate(counts)]
    sizes = sizes_when_scaled(wanted, present[-1], present[:-1])
    total = sum(size for _, size in sizes)
    assert total == (replicas + surge if replicas else 0)
    assert all(size >= 0 for _, size in sizes)
    for rs, size in sizes:
        fair = rs.spec.replicas * total / sum(counts)
        assert abs(size - fair) <= len(counts), "a share far from its proportion"


def test_the_larger_one_gets_what_is_left_over_and_of_like_ones_the_newer() -> None:
    noted = {MAX_REPLICAS: "10"}
    wanted = deployment(11, 0, 1)
    old, new = replica_set("10", 5, 0, noted), replica_set("20", 5, 0, noted)
    assert [(rs.name, size) for rs, size in sizes_when_scaled(wanted, new, [old])] == [("20", 6), ("10", 5)]
    wanted = deployment(9, 0, 1)
    assert [(rs.name, size) for rs, size in sizes_when_scaled(wanted, new, [old])] == [("10", 4), ("20", 5)]


# ---- history ---------------------------------------------------------------------------------------------


def test_a_history_that_gets_too_long_loses_its_beginning() -> None:
    history = ",".join(str(number) for number in range(10_000, 10_333))
    assert len(history) == LONGEST_HISTORY - 3
    found = annotations_of_new(deployment(1), {REVISION: "10333", REVISION_HISTORY: history}, 10334)
    assert found[REVISION] == "10334"
    assert found[REVISION_HISTORY].startswith("10001,")
    assert found[REVISION_HISTORY].endswith(",10332,10333")


def test_a_revision_never_shrinks() -> None:
    present = {REVISION: "7"}
    assert annotations_of_new(deployment(1), present, 3) == present


def test_only_empty_replica_sets_are_cleaned_up_the_oldest_revisions_first() -> None:
    kept = deployment(1)
    kept.spec.revision_history_limit = 2
    sizes = (0, 1, 0, 0, 0)
    old = [
        replica_set(f"{10 + number}", size, 0, {REVISION: str(9 - number)})
        for number, size in enumerate(sizes)
    ]
    for rs in old:
        rs.status.observed_generation = rs.metadata.generation
    assert [rs.metadata.annotations[REVISION] for rs in outdated(kept, old)] == ["5", "6", "7"]
    kept.spec.revision_history_limit = None
    assert outdated(kept, old) == []


def test_the_replica_set_of_a_template_is_found_whatever_the_order_of_its_fields() -> None:
    web = deployment(1)
    web.spec.selector = LabelSelector(match_labels={"app": "web"})
    web.spec.template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Always"},
    }
    body = replica_set_body(web, 1, 1, {})
    digest = body["metadata"]["labels"]["pod-template-hash"]
    assert body["metadata"]["name"] == f"web-{digest}"
    assert body["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    made = body["spec"]["template"]
    metadata = {**made["metadata"], "creationTimestamp": None}
    turned = {"spec": dict(reversed(made["spec"].items())), "metadata": metadata}
    same, other = replica_set("20", 1), replica_set("10", 1)
    same.spec.template = turned
    other.spec.template = {**made, "spec": {**made["spec"], "restartPolicy": "Never"}}
    assert split(web, [other, same]) == (same, [other])
    assert hash_of(web.spec.template) == hash_of(dict(reversed(web.spec.template.items()))) == digest
    assert hash_of(web.spec.template, 0) != digest
