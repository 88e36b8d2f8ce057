"""The containers of one pod, without its node."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.meta import ObjectMeta
from mooring.api.objects import Container, Pod, PodSpec
from mooring.sandbox.kubelet.containers import PodLife
from mooring.sandbox.kubelet.scripts import Script
from mooring.sandbox.programs.runs import Runs
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import (
    ContainerSpec,
    EmptyDir,
    ExecAction,
    Handler,
    Lifecycle,
    PodRun,
    RunSpec,
    SecurityContext,
    VolumeMount,
    VolumeSpec,
)
from mooring.sandbox.programs.volume import Volume
from tests.calls import count_calls

NOW = 1_700_000_000.0


def life(script: str, count: int, hook: str = "") -> PodLife:
    names = [f"c{number}" for number in range(count)]
    lifecycle = Lifecycle(pre_stop=Handler(exec=ExecAction(["sh", "-c", hook]))) if hook else None
    specs = [
        ContainerSpec(
            name=name,
            image="busybox",
            command=["sh", "-c", script],
            volume_mounts=[VolumeMount(name="shared", mount_path="/data")],
            lifecycle=lifecycle,
        )
        for name in names
    ]
    metadata = ObjectMeta(name="web", namespace="shop", uid="1")
    pod = Pod(metadata=metadata, spec=PodSpec(containers=[Container(name=name) for name in names]))
    volumes = [VolumeSpec(name="shared", empty_dir=EmptyDir())]
    run = PodRun(metadata=metadata, spec=RunSpec(containers=specs, volumes=volumes))
    return PodLife(pod, run, Script(), Sources(metadata), Runs(), Volume())


@pytest.mark.parametrize(
    ("image", "context", "expected"),
    [
        ("busybox", {"run_as_user": 0}, "container's runAsUser breaks non-root policy"),
        ("busybox:1.36", {}, "container has runAsNonRoot and image will run as root"),
        ("docker.io/library/nginx:1.27", {}, "container has runAsNonRoot and image will run as root"),
        ("bitnami/nginx", {}, ""),
        ("busybox", {"run_as_user": 1000}, ""),
        ("busybox", {"run_as_non_root": False}, ""),
    ],
)
def test_containers_that_must_not_run_as_root_wait(image: str, context: Any, expected: str) -> None:
    spec = ContainerSpec(name="c", image=image, security_context=SecurityContext(**context))
    metadata = ObjectMeta(name="web", namespace="shop", uid="1")
    pod = Pod(metadata=metadata, spec=PodSpec(containers=[Container(name="c", image=image)]))
    strict = SecurityContext(run_as_non_root=True)
    run = PodRun(metadata=metadata, spec=RunSpec(containers=[spec], security_context=strict))
    started = PodLife(pod, run, Script(), Sources(metadata), Runs(), Volume())
    started.advance(NOW)
    (one,) = started.containers
    where = ' (pod: "web_shop(1)", container: c)' if expected else ""
    assert (one.reason, one.message) == ("CreateContainerConfigError" if expected else "", expected + where)


def test_much_work_is_done_in_several_turns() -> None:
    busy = life("for i in $(seq 1 200); do echo $i > /data/f; done; cat /data/f; sleep 100", 12)
    turns, most, due = 0, 0, 0.0
    while busy.phase != "Running" or due == NOW:
        due = busy.advance(NOW) or 0.0
        turns, most = turns + 1, max(most, busy.evaluation.work)
    assert turns > 3
    assert most < 70_000
    assert due == NOW + 100
    assert not busy.evaluation.must_yield


def test_the_hooks_of_a_pod_share_their_work() -> None:
    loop = f"while true; do if false; then echo {'x ' * 3000}; fi; done"
    one, many = (life("sleep 100", count, loop) for count in (1, 30))
    for each in (one, many):
        each.advance(NOW)
        assert each.begin_stop(NOW) == 300.0
    assert count_calls(lambda: many.begin_stop(NOW)) < 2 * count_calls(lambda: one.begin_stop(NOW))
