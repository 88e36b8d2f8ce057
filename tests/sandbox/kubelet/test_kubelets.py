"""The lives of pods on fake nodes, in virtual time."""

from __future__ import annotations

import pytest

from mooring.api.times import format_time
from tests.sandbox.controllers.kit import resource
from tests.sandbox.kubelet.kit import Nodes, Tree, condition, play, pod

JOB = {
    "ownerReferences": [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-1", "controller": True}
    ]
}


def container(status: Tree) -> Tree:
    first: Tree = status["containerStatuses"][0]
    return first


def test_a_bound_pod_runs_at_once_and_is_ready() -> None:
    async def scene(stage: Nodes) -> None:
        running = await stage.run_pod()
        status = running["status"]
        node = await stage.node()
        host = next(one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP")
        assert status["phase"] == "Running"
        assert status["startTime"] == "2030-01-01T00:00:00Z"
        assert status["hostIP"] == host
        assert status["podIPs"] == [{"ip": status["podIP"]}] != [{"ip": host}]
        kinds = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        assert [one["type"] for one in status["conditions"] if one["status"] == "True"] == kinds
        main = container(status)
        assert main["ready"] is main["started"] is True
        assert main["state"] == {"running": {"startedAt": "2030-01-01T00:00:00Z"}}
        assert main["containerID"].startswith("containerd://")
        assert main["imageID"].startswith("web:1@sha256:")
        assert await stage.reasons() == ["Pulled", "Created", "Started"]

    play(scene)


def test_running_costs_one_write() -> None:
    async def scene(stage: Nodes) -> None:
        created = await stage.create(pod())
        await stage.rest()
        running = await stage.get("pods", "web")
        events = len(await stage.events())
        written = int(running["metadata"]["resourceVersion"]) - int(created["metadata"]["resourceVersion"])
        assert written <= 1 + events

    play(scene)


def test_pods_have_addresses_of_their_own_but_on_the_hosts_network() -> None:
    async def scene(stage: Nodes) -> None:
        first, second = await stage.run_pod("a"), await stage.run_pod("b")
        assert first["status"]["podIP"] != second["status"]["podIP"]
        host = await stage.run_pod("c", hostNetwork=True)
        assert host["status"]["podIP"] == host["status"]["hostIP"]

    play(scene)


def test_containers_are_created_for_as_long_as_the_start_delay_says() -> None:
    async def scene(stage: Nodes) -> None:
        status = (await stage.run_pod(run={"start-delay": "5s"}))["status"]
        assert status["phase"] == "Pending"
        assert container(status)["state"] == {"waiting": {"reason": "ContainerCreating"}}
        assert container(status)["started"] is False
        ready = condition({"status": status}, "Ready")
        assert ready["reason"] == "ContainersNotReady"
        assert ready["message"] == "containers with unready status: [main]"
        await stage.advance(4.9)
        assert await stage.phase() == "Pending"
        await stage.advance(0.1)
        status = await stage.status()
        assert status["phase"] == "Running"
        assert status["startTime"] == "2030-01-01T00:00:00Z"
        assert container(status)["state"]["running"]["startedAt"] == "2030-01-01T00:00:05Z"
        ready = condition({"status": status}, "Ready")
        assert ready["lastTransitionTime"] == "2030-01-01T00:00:05Z"
        assert "reason" not in ready

    play(scene)


@pytest.mark.parametrize(
    ("code", "policy", "phase", "reason"),
    [
        ("0", "Never", "Succeeded", "Completed"),
        ("0", "OnFailure", "Succeeded", "Completed"),
        ("3", "Never", "Failed", "Error"),
    ],
)
def test_pods_end_as_their_annotations_say(code: str, policy: str, phase: str, reason: str) -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(run={"run-time": "30s", "exit-code": code}, restartPolicy=policy)
        await stage.advance(29.9)
        assert await stage.phase() == "Running"
        await stage.advance(0.2)
        status = await stage.status()
        assert status["phase"] == phase
        ended = container(status)["state"]["terminated"]
        assert ended["exitCode"] == int(code)
        assert ended["reason"] == reason
        assert ended["startedAt"] == "2030-01-01T00:00:00Z"
        assert ended["finishedAt"] == "2030-01-01T00:00:30Z"
        ready = condition({"status": status}, "Ready")
        assert ready["status"] == "False"
        assert ready["reason"] == ("PodCompleted" if phase == "Succeeded" else "PodFailed")

    play(scene)


def test_pods_of_jobs_and_bare_pods_that_are_never_restarted_end_after_a_second() -> None:
    async def scene(stage: Nodes) -> None:
        custom = {"ownerReferences": [{**JOB["ownerReferences"][0], "kind": "Cluster"}]}
        await stage.run_pod("of-job", restartPolicy="Never", metadata=JOB)
        await stage.run_pod("bare", restartPolicy="Never")
        await stage.run_pod("of-an-operator", restartPolicy="Never", metadata=custom)
        await stage.run_pod("always")
        await stage.advance(1.1)
        assert await stage.phase("of-job") == "Succeeded"
        assert await stage.phase("bare") == "Succeeded"
        await stage.advance(3600)
        assert await stage.phase("of-an-operator") == "Running"
        assert await stage.phase("always") == "Running"

    play(scene)


def test_crashing_containers_are_started_again_ever_more_slowly() -> None:
    async def scene(stage: Nodes) -> list[tuple[int, int]]:
        await stage.run_pod(run={"run-time": "2s", "exit-code": "1"})
        begun, starts, seen = stage.now(), [], 0
        for _ in range(3600):
            status = container(await stage.status())
            if status["restartCount"] != seen:
                seen = status["restartCount"]
                starts.append((round(stage.now() - begun), seen))
            await stage.advance(1)
        return starts

    # Restarted at once, then 10, 20, 40, 80, 160 and 300 seconds after the end of a run of two seconds.
    gaps = [2, 12, 22, 42, 82, 162, 302, 302]
    starts = play(scene)[: len(gaps)]
    assert [count for _, count in starts] == list(range(1, len(gaps) + 1))
    times = [time for time, _ in starts]
    between = [after - before for before, after in zip([0, *times], times, strict=False)]
    assert all(abs(found - gap) <= 1 for found, gap in zip(between, gaps, strict=True)), between


def test_a_crash_loop_is_told_in_kubelets_words() -> None:
    async def scene(stage: Nodes) -> None:
        uid = (await stage.run_pod(run={"run-time": "2s", "exit-code": "1"}))["metadata"]["uid"]
        await stage.advance(5)
        status = await stage.status()
        main = container(status)
        assert status["phase"] == "Running"
        assert main["restartCount"] == 1
        assert main["ready"] is main["started"] is False
        assert main["state"]["waiting"] == {
            "reason": "CrashLoopBackOff",
            "message": f"back-off 10s restarting failed container=main pod=web_default({uid})",
        }
        assert main["lastState"]["terminated"]["exitCode"] == 1
        assert main["lastState"]["terminated"]["containerID"] == main["containerID"]
        assert condition({"status": status}, "Ready")["reason"] == "ContainersNotReady"
        told = [each.message for each in await stage.events() if each.reason == "BackOff"]
        assert told == [f"Back-off restarting failed container main in pod web_default({uid})"]

    play(scene)


def test_a_container_that_ran_long_is_started_again_at_once() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(run={"run-time": "15m"})
        await stage.advance(3 * 900 + 1)
        main = container(await stage.status())
        assert main["restartCount"] == 3
        assert "running" in main["state"]

    play(scene)


def test_the_active_deadline_ends_a_pod() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(activeDeadlineSeconds=60)
        await stage.run_pod("slow", activeDeadlineSeconds=60, run={"start-delay": "2m"})
        await stage.advance(59)
        assert await stage.phase() == "Running"
        await stage.advance(1.1)
        for name in ("web", "slow"):
            status = await stage.status(name)
            assert status["phase"] == "Failed"
            assert status["reason"] == "DeadlineExceeded"
            assert status["message"] == "Pod was active on the node longer than the specified deadline"

    play(scene)


def test_init_containers_take_no_time_and_sidecars_stay() -> None:
    async def scene(stage: Nodes) -> None:
        inits = [
            {"name": "prepare", "image": "i"},
            {"name": "proxy", "image": "i", "restartPolicy": "Always"},
        ]
        run = {"run-time": "10s"}
        status = (await stage.run_pod(initContainers=inits, restartPolicy="Never", run=run))["status"]
        prepare, proxy = status["initContainerStatuses"]
        assert prepare["state"]["terminated"]["exitCode"] == 0
        assert "running" in proxy["state"]
        assert status["phase"] == "Running"
        await stage.advance(11)
        status = await stage.status()
        assert status["phase"] == "Succeeded"
        assert all("terminated" in one["state"] for one in status["initContainerStatuses"])

    play(scene)


def test_readiness_gates_have_a_say() -> None:
    async def scene(stage: Nodes) -> None:
        gates = [{"conditionType": "example.com/balanced"}]
        ready = condition(await stage.run_pod(readinessGates=gates), "Ready")
        assert ready["status"] == "False"
        assert ready["reason"] == "ReadinessGatesNotReady"
        told = 'corresponding condition of pod readiness gate "example.com/balanced" does not exist.'
        assert ready["message"] == told
        await stage.advance(10)
        passed = {"type": "example.com/balanced", "status": "True"}
        await stage.patch("pods", "web", {"status": {"conditions": [passed]}}, "status")
        await stage.rest()
        after = await stage.get("pods", "web")
        assert condition(after, "Ready")["status"] == "True"
        assert condition(after, "Ready")["lastTransitionTime"] == "2030-01-01T00:00:10Z"
        assert condition(after, "example.com/balanced")["status"] == "True"

    play(scene)


@pytest.mark.parametrize("claimed", [False, True])
def test_pods_wait_for_their_claims(claimed: bool) -> None:
    claim: Tree = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }

    async def scene(stage: Nodes) -> None:
        if claimed:
            await stage.create(claim)
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        status = (await stage.run_pod(volumes=volumes))["status"]
        assert container(status)["state"]["waiting"]["reason"] == "ContainerCreating"
        (told,) = [each for each in await stage.events() if each.reason == "FailedMount"]
        assert told.type == "Warning"
        assert "unmounted volumes=[v]" in told.message
        assert ("PVC is not bound" in told.message) is claimed
        if not claimed:
            await stage.create(claim)
        await stage.patch("persistentvolumeclaims", "data", {"spec": {"volumeName": "pv"}})
        await stage.patch("persistentvolumeclaims", "data", {"status": {"phase": "Bound"}}, "status")
        await stage.rest()
        assert await stage.phase() == "Running"

    play(scene)


# ---- the end


def test_deleted_pods_go_at_once() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod()
        await stage.delete("pods", "web")
        await stage.rest()
        assert await stage.names() == []
        assert "Killing" in await stage.reasons()

    play(scene)


@pytest.mark.parametrize(("stop", "grace", "gone"), [("10s", 30, 10), ("1h", 30, 30), ("10s", 0, 0)])
def test_stopping_takes_its_time_within_the_grace_period(stop: str, grace: int, gone: float) -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(run={"stop-time": stop})
        await stage.delete("pods", "web", grace=grace)
        if gone:
            await stage.advance(gone - 0.5)
            assert await stage.names() == ["web"]
        await stage.advance(0.6)
        assert await stage.names() == []

    play(scene)


def test_a_deletion_that_is_known_before_its_details_takes_its_time_as_well() -> None:
    """Controllers in this process tell the cache of a deletion before the API server does."""

    async def scene(stage: Nodes) -> None:
        await stage.run_pod(run={"stop-time": "20s"})
        known = stage.pods.get("default/web")
        assert known is not None
        await stage.delete("pods", "web")
        stage.pods.deleting(known, format_time(stage.now()))
        await stage.advance(19)
        assert await stage.names() == ["web"]
        await stage.advance(1.1)
        assert await stage.names() == []

    play(scene)


def test_a_pod_that_somebody_holds_on_to_shows_how_it_ended() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(metadata={"finalizers": ["example.com/count"]})
        await stage.delete("pods", "web")
        await stage.rest()
        status = await stage.status()
        assert status["phase"] == "Failed"
        assert container(status)["state"]["terminated"]["exitCode"] == 143
        await stage.patch("pods", "web", {"metadata": {"finalizers": None}})
        await stage.rest()
        assert await stage.names() == []

    play(scene)


def test_finished_pods_can_be_deleted_and_give_back_what_they_took() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod("a", cpu="10", run={"run-time": "1s"}, restartPolicy="Never")
        await stage.advance(2)
        assert (await stage.run_pod("b", cpu="10"))["status"]["phase"] == "Running"
        await stage.delete("pods", "a")
        await stage.rest()
        assert await stage.names() == ["b"]

    play(scene)


# ---- faults


def test_annotations_that_make_no_sense_are_told_and_ignored() -> None:
    async def scene(stage: Nodes) -> None:
        status = (await stage.run_pod(run={"start-delay": "soon", "exit-code": "-1"}))["status"]
        assert status["phase"] == "Running"
        notes = [each.message for each in await stage.events() if each.reason == "InvalidAnnotation"]
        assert any('mooring/start-delay is ignored: found "soon"' in note for note in notes), notes

    play(scene)


def test_pods_on_a_failed_node_freeze_until_it_recovers() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod("ends", run={"run-time": "10s"}, restartPolicy="Never")
        await stage.run_pod("stays")
        await stage.run_pod("deleted")
        await stage.annotate("node-1", "true")
        await stage.delete("pods", "deleted")
        await stage.create(pod("late"))
        await stage.advance(60)
        phases = {each["metadata"]["name"]: each["status"]["phase"] for each in await stage.all("pods")}
        assert phases == {"ends": "Running", "stays": "Running", "deleted": "Running", "late": "Pending"}
        await stage.annotate("node-1", None)
        phases = {each["metadata"]["name"]: each["status"]["phase"] for each in await stage.all("pods")}
        assert phases == {"ends": "Succeeded", "stays": "Running", "late": "Running"}

    play(scene)


def test_a_new_process_goes_on_where_the_old_one_was() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod("ends", run={"run-time": "60s"}, restartPolicy="Never")
        await stage.run_pod("starts", run={"start-delay": "60s"})
        await stage.run_pod("crashes", run={"run-time": "1s", "exit-code": "1"})
        await stage.run_pod("large", cpu="10")
        await stage.advance(30)
        before = container(await stage.status("crashes"))
        await stage.end()
        stage.begin()
        await stage.advance(1)
        after = await stage.status("large")
        assert after["phase"] == "Running"
        assert container(after)["restartCount"] == 0
        assert container(await stage.status("crashes"))["restartCount"] in (
            before["restartCount"],
            before["restartCount"] + 1,
        )
        assert (await stage.run_pod("another", cpu="10"))["status"]["reason"] == "OutOfcpu"
        assert (await stage.run_pod("small"))["status"]["podIP"] != after["podIP"]
        await stage.advance(30)
        assert await stage.phase("ends") == "Succeeded"
        assert await stage.phase("starts") == "Running"

    play(scene)


def test_a_pod_by_the_name_of_another_is_another() -> None:
    async def scene(stage: Nodes) -> None:
        first = await stage.run_pod(run={"run-time": "5s"}, restartPolicy="Never")
        await stage.delete("pods", "web", grace=0)
        await stage.create(pod())
        await stage.advance(10)
        second = await stage.get("pods", "web")
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        assert second["status"]["phase"] == "Running"

    play(scene)


def test_an_hour_passes_without_anything_written() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod()
        await stage.advance(1)
        before = await version(stage)
        await stage.advance(3600)
        assert await version(stage) == before

    async def version(stage: Nodes) -> str:
        return (await stage.cluster.list(resource("pods"))).resource_version

    play(scene)


def test_pods_wait_for_a_node_that_is_not_there_yet() -> None:
    async def scene(stage: Nodes) -> None:
        assert (await stage.run_pod(node="node-2"))["status"]["phase"] == "Pending"
        await stage.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-2"}})
        await stage.rest()
        assert await stage.phase() == "Running"

    play(scene)


def test_many_pods_are_not_slowed_down_by_events_that_nobody_reads() -> None:
    async def scene(stage: Nodes) -> None:
        for at in range(200):
            await stage.create(pod(f"p{at}"))
        await stage.rest()
        pods = await stage.all("pods")
        running = [each for each in pods if each["status"]["phase"] == "Running"]
        refused = [each for each in pods if each["status"].get("reason") == "OutOfpods"]
        assert len(running) == 110
        assert len(refused) == 90
        normal = [each for each in await stage.events() if each.type == "Normal"]
        assert 3 <= len(normal) <= 100 + 3
        warnings = [each for each in await stage.events() if each.type == "Warning"]
        assert len(warnings) == 90  # these are always told

    play(scene)
