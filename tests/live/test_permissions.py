"""A ServiceAccount that lacks a permission: which one is said, the rest goes on, and granting it heals."""

from __future__ import annotations

import pytest

from tests.live.accounts import Account
from tests.live.replica import SYNCED, Replica, configuration, wait_for
from tests.live.scene import Scene

SCHEDULER = "mooring-permissions"


@pytest.fixture(autouse=True)
def scheduler_name(scene: Scene) -> None:
    scene.scheduler_name = SCHEDULER


def running(scene: Scene, account: Account) -> Replica:
    return Replica(scene.cluster.folder, configuration(account.kubeconfig, SCHEDULER))


def test_list_persistentvolumes(scene: Scene) -> None:
    """As kube-scheduler, Mooring decides nothing before it has seen all that decisions depend on."""
    account = Account(scene, "blind", "list persistentvolumes")
    node = scene.node("a")
    with running(scene, account) as replica:
        line = replica.says("not allowed to list persistentvolumes")
        assert account.user in line
        assert 'the verb "list" on "persistentvolumes"' in line
        scene.pod("web")
        assert replica.lines(SYNCED) == []
        account.allow_all()
        assert scene.bound("web") == [node]
        assert len(replica.lines("not allowed to list persistentvolumes")) == 1
        assert replica.lines("not allowed") == replica.lines("not allowed to list persistentvolumes")
        assert replica.end() == 0


def test_create_pods_binding(scene: Scene) -> None:
    account = Account(scene, "idle", "create pods/binding")
    node = scene.node("a", cpu="2")
    with running(scene, account) as replica:
        replica.ready()
        scene.pod("web")
        scene.pod("huge", cpu="8")
        condition = scene.refused("web", 'cannot create resource "pods/binding"')
        assert condition["reason"] == "SchedulerError"
        assert account.user in condition["message"]
        assert scene.event("web", "FailedScheduling")["note"] == condition["message"]
        line = replica.says("Failed to bind pod", f"{scene.namespace}/web")
        assert 'cannot create resource \\"pods/binding\\"' in line
        scene.refused("huge", "Insufficient cpu")
        account.allow_all()
        assert scene.bound("web") == [node]
        assert replica.end() == 0


def test_patch_pods_status_and_create_events(scene: Scene) -> None:
    """Who may not speak can still schedule."""
    account = Account(scene, "mute", "patch pods/status", "create events")
    with running(scene, account) as replica:
        replica.ready()
        node = scene.node("a", cpu="2")
        for name in ("huge", "vast"):
            scene.pod(name, cpu="8")
        scene.pod("web")
        assert scene.bound("web") == [node]
        line = replica.says("Failed to update pod status", f"{scene.namespace}/huge")
        assert 'cannot patch resource \\"pods/status\\"' in line
        replica.says("event", "rejected, and others like it", 'cannot create resource "events"')
        large = scene.node("b", cpu="32")
        assert scene.bound("huge", "vast") == [large, large]
        assert len(replica.lines("rejected, and others like it")) == 1
        assert replica.end() == 0


def test_delete_pods(scene: Scene) -> None:
    """Preemption fails by name, with pauses in between, and succeeds once it may."""
    account = Account(scene, "meek", "delete pods")
    node = scene.node("a", cpu="2")
    urgent = f"urgent-{scene.namespace}"
    scene.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": urgent}, "value": 9})
    with running(scene, account) as replica:
        replica.ready()
        scene.pod("victim", cpu="2")
        scene.bound("victim")
        scene.pod("urgent", cpu="2", priorityClassName=urgent)
        line = replica.says("Failed to preempt pod", f'preemptor="{scene.namespace}/urgent"')
        assert 'cannot delete resource \\"pods\\"' in line
        assert "deletionTimestamp" not in scene.get("victim")["metadata"]
        account.allow_all()
        wait_for(lambda: "deletionTimestamp" in scene.get("victim")["metadata"], "the victim goes")
        assert len(replica.lines("Failed to preempt pod")) < 5
        scene.delete("victim")
        assert scene.bound("urgent") == [node]
        assert replica.end() == 0
