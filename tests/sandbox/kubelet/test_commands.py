"""Pods whose containers do what their commands say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mooring.api.kinds import PODS
from mooring.client.port import PatchType
from mooring.sandbox.apiserver.accounts import user_of
from mooring.sandbox.apiserver.dispatch import handle
from mooring.sandbox.apiserver.verbs.request import Request, TextAnswer, TextStreamAnswer
from tests.sandbox.apiserver.kit import USER
from tests.sandbox.controllers.kit import resource
from tests.sandbox.kubelet.kit import Nodes, condition, play, pod

Tree = dict[str, Any]


def container(name: str = "main", script: str = "", **fields: Any) -> Tree:
    tree: Tree = {"name": name, "image": "busybox", **fields}
    return {**tree, "command": ["sh", "-c", script]} if script else tree


def states(statuses: list[Tree]) -> list[str]:
    return [next(iter(one["state"])) for one in statuses]


@pytest.mark.parametrize(
    ("script", "policy", "phase", "code"),
    [
        ("sleep 5", "Never", "Succeeded", 0),
        ("sleep 5; exit 3", "Never", "Failed", 3),
        ("sleep 5", "OnFailure", "Succeeded", 0),
    ],
)
def test_containers_end_as_their_commands_do(script: str, policy: str, phase: str, code: int) -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(containers=[container(script=script)], restartPolicy=policy)
        await stage.advance(4)
        assert await stage.phase() == "Running"
        await stage.advance(2)
        status = await stage.status()
        assert status["phase"] == phase
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code

    play(scene)


def test_annotations_take_precedence_over_commands() -> None:
    async def scene(stage: Nodes) -> None:
        containers = [container(script="exit 1")]
        await stage.run_pod(containers=containers, restartPolicy="Never", run={"run-time": "1m"})
        await stage.advance(30)
        assert await stage.phase() == "Running"
        await stage.advance(31)
        assert await stage.phase() == "Succeeded"

    play(scene)


def test_each_container_is_restarted_by_itself() -> None:
    async def scene(stage: Nodes) -> None:
        containers = [container("steady", "sleep infinity"), container("weak", "sleep 5; exit 1")]
        await stage.run_pod(containers=containers)
        await stage.advance(15)
        status = await stage.status()
        steady, weak = status["containerStatuses"]
        assert (steady["restartCount"], steady["ready"]) == (0, True)
        assert weak["restartCount"] == 1
        assert weak["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert weak["lastState"]["terminated"]["exitCode"] == 1
        assert status["phase"] == "Running"
        ready = condition({"status": status}, "Ready")
        assert ready["message"] == "containers with unready status: [weak]"

    play(scene)


def test_init_containers_run_one_after_another_and_sidecars_stay() -> None:
    async def scene(stage: Nodes) -> None:
        inits = [
            container("first", "sleep 5"),
            container("proxy", restartPolicy="Always"),
            container("second", "sleep 5"),
        ]
        await stage.run_pod(
            initContainers=inits, containers=[container(script="sleep 5")], restartPolicy="Never"
        )
        await stage.advance(1)
        status = await stage.status()
        assert status["phase"] == "Pending"
        assert states(status["initContainerStatuses"]) == ["running", "waiting", "waiting"]
        assert states(status["containerStatuses"]) == ["waiting"]
        initialized = condition({"status": status}, "Initialized")
        assert initialized["message"] == "containers with incomplete status: [first proxy second]"
        await stage.advance(5)
        status = await stage.status()
        assert states(status["initContainerStatuses"]) == ["terminated", "running", "running"]
        await stage.advance(5)
        assert await stage.phase() == "Running"
        await stage.advance(5)
        status = await stage.status()
        assert status["phase"] == "Succeeded"
        assert states(status["initContainerStatuses"]) == ["terminated"] * 3

    play(scene)


def test_containers_wait_until_sidecars_have_started() -> None:
    async def scene(stage: Nodes) -> None:
        probe = {"exec": {"command": ["cat", "/tmp/up"]}, "periodSeconds": 1, "failureThreshold": 60}
        script = "sleep 10; touch /tmp/up; sleep 10; exit 1"
        await stage.run_pod(
            initContainers=[container("proxy", script, restartPolicy="Always", startupProbe=probe)],
            containers=[container(script="sleep 1000")],
        )
        await stage.advance(5)
        status = await stage.status()
        assert states(status["containerStatuses"]) == ["waiting"]
        initialized = condition({"status": status}, "Initialized")
        assert initialized["message"] == "containers with incomplete status: [proxy]"
        await stage.advance(10)
        status = await stage.status()
        assert states(status["containerStatuses"]) == ["running"]
        await stage.advance(10)  # the sidecar starts again, which changes nothing for the others
        status = await stage.status()
        assert status["initContainerStatuses"][0]["restartCount"] == 1
        assert condition({"status": status}, "Initialized")["status"] == "True"
        assert (status["phase"], states(status["containerStatuses"])) == ("Running", ["running"])

    play(scene)


def test_a_failing_init_container_fails_the_pod_or_is_tried_again() -> None:
    async def scene(stage: Nodes) -> None:
        inits = [container("fails", "exit 1"), container("waits")]
        await stage.run_pod("never", initContainers=inits, restartPolicy="Never")
        await stage.run_pod("always", initContainers=inits)
        await stage.advance(15)
        never, always = await stage.status("never"), await stage.status("always")
        assert never["phase"] == "Failed"
        assert states(never["containerStatuses"]) == ["waiting"]
        message = condition({"status": never}, "Initialized")["message"]
        assert message == "containers with incomplete status: [fails waits]"
        assert always["phase"] == "Pending"
        assert always["initContainerStatuses"][0]["restartCount"] == 2
        assert condition({"status": always}, "Initialized")["status"] == "False"

    play(scene)


def test_an_image_that_cannot_be_pulled_until_it_is_replaced() -> None:
    async def scene(stage: Nodes) -> None:
        status = (await stage.run_pod(containers=[container(image="web:404")]))["status"]
        assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "ErrImagePull"
        await stage.advance(2)
        status = await stage.status()
        assert status["phase"] == "Pending"
        waiting = status["containerStatuses"][0]["state"]["waiting"]
        assert waiting["reason"] == "ImagePullBackOff"
        name = "docker.io/library/web:404"
        assert waiting["message"] == (
            'Back-off pulling image "web:404": ErrImagePull: rpc error: code = NotFound desc = failed to pull'
            f' and unpack image "{name}": failed to resolve reference "{name}": {name}: not found'
        )
        await stage.advance(600)
        assert {"Pulling", "Failed", "BackOff"} <= set(await stage.reasons())
        patch = {"spec": {"containers": [{"name": "main", "image": "web:1"}]}}
        await stage.patch("pods", "web", patch)
        await stage.advance(1)
        assert await stage.phase() == "Running"

    play(scene)


def test_an_image_that_is_never_pulled_until_it_is_replaced() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(containers=[container(image="web:404", imagePullPolicy="Never")])
        await stage.advance(20)
        status = await stage.status()
        waiting = status["containerStatuses"][0]["state"]["waiting"]
        assert (status["phase"], waiting["reason"]) == ("Pending", "ErrImageNeverPull")
        assert {"ErrImageNeverPull", "Failed"} <= set(await stage.reasons())
        patch = {"spec": {"containers": [{"name": "main", "image": "web:1"}]}}
        await stage.patch("pods", "web", patch)
        await stage.advance(1)
        assert await stage.phase() == "Running"

    play(scene)


def test_an_image_volume_that_cannot_be_pulled() -> None:
    async def scene(stage: Nodes) -> None:
        volumes = [{"name": name, "image": {"reference": f"{name}:404"}} for name in ("data", "unused")]
        mounted = container(volumeMounts=[{"name": "data", "mountPath": "/data"}])
        status = (await stage.run_pod(containers=[mounted], volumes=volumes))["status"]
        waiting = status["containerStatuses"][0]["state"]["waiting"]
        assert (waiting["reason"], "library/data:404" in waiting["message"]) == ("ErrImagePull", True)

    play(scene)


def test_a_new_image_is_tried_without_the_back_off_of_the_old_one() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(containers=[container(script="exit 1", image="busybox:1")])
        await stage.advance(600)
        (crashed,) = (await stage.status())["containerStatuses"]
        assert "back-off 5m0s" in crashed["state"]["waiting"]["message"]
        patch = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
        await stage.patch("pods", "web", patch)
        await stage.advance(5)
        (crashed,) = (await stage.status())["containerStatuses"]
        assert "back-off 10s" in crashed["state"]["waiting"]["message"]

    play(scene)


def test_containers_wait_for_their_variables_and_volumes() -> None:
    async def scene(stage: Nodes) -> None:
        settings = container(envFrom=[{"configMapRef": {"name": "settings"}}])
        ref = {"secretKeyRef": {"name": "login", "key": "password"}}
        await stage.create(secret("login", user="me"))
        await stage.run_pod("settings", containers=[settings])
        await stage.run_pod("login", containers=[container(env=[{"name": "X", "valueFrom": ref}])])
        volumes = [{"name": "config", "configMap": {"name": "settings"}}]
        await stage.run_pod("mounts", volumes=volumes)
        waiting = [
            (await stage.status(name))["containerStatuses"][0]["state"]["waiting"]
            for name in ("settings", "login", "mounts")
        ]
        assert waiting == [
            {"reason": "CreateContainerConfigError", "message": 'configmap "settings" not found'},
            {
                "reason": "CreateContainerConfigError",
                "message": "couldn't find key password in Secret default/login",
            },
            {"reason": "ContainerCreating"},
        ]
        assert await stage.reasons("mounts") == ["FailedMount"]
        await stage.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})
        await stage.advance(6)
        assert await stage.phase("settings") == await stage.phase("mounts") == "Running"
        assert await stage.phase("login") == "Pending"

    play(scene)


def secret(name: str, **data: str) -> Tree:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def test_probes_decide_over_readiness_and_restarts() -> None:
    async def scene(stage: Nodes) -> None:
        late = {"httpGet": {"port": 80}, "initialDelaySeconds": 20}
        fails = {"exec": {"command": ["/bin/false"]}}
        await stage.run_pod("late", containers=[container(readinessProbe=late)])
        await stage.run_pod("never", containers=[container(readinessProbe=fails)])
        await stage.run_pod("killed", containers=[container(livenessProbe=fails)])
        assert [await ready(stage, name) for name in ("late", "never")] == ["False", "False"]
        await stage.advance(21)
        assert [await ready(stage, name) for name in ("late", "never")] == ["True", "False"]
        last = (await stage.status("killed"))["containerStatuses"][0]["lastState"]["terminated"]
        assert last["exitCode"] == 137

    async def ready(stage: Nodes, name: str) -> str:
        return str(condition(await stage.get("pods", name), "Ready")["status"])

    play(scene)


def test_a_liveness_probe_fails_once_its_file_is_removed() -> None:
    """The tutorial of Kubernetes' documentation."""

    async def scene(stage: Nodes) -> None:
        script = "touch /tmp/healthy; sleep 30; rm -f /tmp/healthy; sleep 600"
        probe = {"exec": {"command": ["cat", "/tmp/healthy"]}, "initialDelaySeconds": 5, "periodSeconds": 5}
        await stage.run_pod(containers=[container(script=script, livenessProbe=probe)])
        await stage.advance(39)
        assert (await stage.status())["containerStatuses"][0]["restartCount"] == 0
        await stage.advance(2)
        status = (await stage.status())["containerStatuses"][0]
        assert status["restartCount"] == 1
        assert status["lastState"]["terminated"]["exitCode"] == 137
        counts = {each.message: each.count for each in await stage.events()}
        missing = "cat: can't open '/tmp/healthy': No such file or directory"
        assert counts[f"Liveness probe failed: {missing}\n"] == 3
        assert counts["Container main failed liveness probe, will be restarted"] == 1

    play(scene)


def test_readiness_follows_files_and_startup_comes_first() -> None:
    async def scene(stage: Nodes) -> None:
        probe = {"exec": {"command": ["cat", "/tmp/ready"]}, "periodSeconds": 1, "failureThreshold": 2}
        script = "sleep 10; touch /tmp/up; sleep 10; touch /tmp/ready; sleep 10; rm /tmp/ready; sleep 600"
        startup = {"exec": {"command": ["cat", "/tmp/up"]}, "periodSeconds": 1, "failureThreshold": 30}
        await stage.run_pod(containers=[container(script=script, readinessProbe=probe, startupProbe=startup)])
        seen = []
        for seconds in (5, 8, 9, 12):
            await stage.advance(seconds)
            status = (await stage.status())["containerStatuses"][0]
            seen.append((status["started"], status["ready"]))
        assert seen == [(False, False), (True, False), (True, True), (True, False)]
        assert status["restartCount"] == 0

    play(scene)


def test_a_mounted_config_map_is_read_as_it_changes() -> None:
    async def scene(stage: Nodes) -> None:
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
        await stage.create({**config_map, "data": {"color": "blue\n"}})
        mounts = [
            {"name": "settings", "mountPath": "/etc/settings"},
            {"name": "shared", "mountPath": "/data"},
        ]
        script = "while true; do cat /etc/settings/color; sleep 10; done"
        await stage.run_pod(
            containers=[
                container(
                    "first", "until [ -f /data/done ]; do sleep 1; done; echo seen", volumeMounts=mounts
                ),
                container("second", "sleep 3; echo yes >/data/done; sleep 99", volumeMounts=mounts),
                container("main", script, volumeMounts=mounts),
            ],
            volumes=[
                {"name": "settings", "configMap": {"name": "settings"}},
                {"name": "shared", "emptyDir": {}},
            ],
            restartPolicy="Never",
        )
        await stage.advance(15)
        await stage.patch("configmaps", "settings", {"data": {"color": "red\n"}})
        await stage.advance(20)
        assert log(stage, "main") == "blue\nblue\nred\nred\n"
        assert log(stage, "first") == "seen\n"
        assert states((await stage.status())["containerStatuses"]) == ["terminated", "running", "running"]

    play(scene)


def test_pods_share_the_disk_of_their_node() -> None:
    async def scene(stage: Nodes) -> None:
        volumes = [{"name": "disk", "hostPath": {"path": "/tmp/shared"}}]
        mounts = [{"name": "disk", "mountPath": "/data"}]
        script = "[[ -r /data/seen ]] && exit 0; touch /data/seen; sleep 10; touch /data/late; exit 4"
        late = "test -f /data/late"
        fields: Tree = {"volumes": volumes, "restartPolicy": "Never"}
        await stage.run_pod("first", containers=[container(script=script, volumeMounts=mounts)], **fields)
        await stage.run_pod("second", containers=[container(script=script, volumeMounts=mounts)], **fields)
        await stage.advance(1)
        assert await stage.phase("second") == "Succeeded"
        await stage.cluster.delete(resource("pods"), "first", "default", grace_period_seconds=0)
        await stage.advance(20)
        await stage.run_pod("third", containers=[container(script=late, volumeMounts=mounts)], **fields)
        await stage.advance(1)
        assert await stage.phase("third") == "Failed"  # the first one was deleted before it wrote that

    play(scene)


def log(stage: Nodes, container: str) -> str:
    api = stage.server.api
    pods = api.registry.find("", "v1", "pods")
    assert pods is not None
    params = {"container": [container]}
    answer = handle(Request(api, "get", pods, "default", "web", USER, pods.subresources["log"], params))
    assert isinstance(answer, TextAnswer)
    return answer.text


def test_pre_stop_hooks_take_their_time_within_the_grace_period() -> None:
    async def scene(stage: Nodes) -> None:
        for name, seconds in (("short", 5), ("long", 50)):
            hook = {"preStop": {"sleep": {"seconds": seconds}}}
            await stage.run_pod(
                name, containers=[container(lifecycle=hook)], terminationGracePeriodSeconds=60
            )
            await stage.delete("pods", name, grace=30)
        await stage.advance(4)
        assert await stage.names() == ["long", "short"]
        await stage.advance(2)
        assert await stage.names() == ["long"]
        await stage.advance(25)
        assert await stage.names() == []

    play(scene)


def test_pods_of_one_template_are_read_once() -> None:
    async def scene(stage: Nodes) -> None:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
        metadata = {"ownerReferences": [owner], "labels": {"pod-template-hash": "1"}}
        for at in range(5):
            await stage.create(pod(f"p{at}", metadata=metadata, containers=[container(script="sleep 5")]))
        await stage.advance(6)
        for at in range(5):
            assert (await stage.status(f"p{at}"))["containerStatuses"][0]["restartCount"] == 1

    play(scene)


def test_images_that_match_a_pattern_cannot_be_pulled() -> None:
    async def scene(stage: Nodes) -> None:
        stage.missing_images.append("registry.example.com/*")
        await stage.run_pod("web", containers=[container(image="registry.example.com/shop/web:1")])
        await stage.run_pod("db", containers=[container(image="registry.example.org/db:1")])
        assert await waiting(stage) == "ErrImagePull"
        await stage.advance(2)
        assert await waiting(stage) == "ImagePullBackOff"
        assert await stage.phase("db") == "Running"

    async def waiting(stage: Nodes) -> str:
        return str((await stage.status("web"))["containerStatuses"][0]["state"]["waiting"]["reason"])

    play(scene)


def test_ephemeral_containers_run_once_and_do_not_count_for_readiness() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(containers=[container(script="sleep infinity")])
        ephemerals = [container("once", "sleep 5; exit 3"), container("shell", stdin=True), container("eof")]
        await stage.cluster.patch(
            resource("pods"),
            "web",
            {"spec": {"ephemeralContainers": ephemerals}},
            "default",
            subresource="ephemeralcontainers",
            kind=PatchType.STRATEGIC,
        )
        await stage.rest()
        first = (await stage.status())["ephemeralContainerStatuses"]
        assert states(first) == ["running", "running", "terminated"]
        await stage.advance(60)
        status = await stage.status()
        once, shell, _ = status["ephemeralContainerStatuses"]
        assert (once["restartCount"], once["state"]["terminated"]["exitCode"]) == (0, 3)
        assert "running" in shell["state"]
        assert condition({"status": status}, "Ready")["status"] == "True"

    play(scene)


@pytest.mark.parametrize(
    ("params", "texts"),
    [
        ({}, "one two three"),
        ({"tailLines": "0"}, "two three"),
        ({"limitBytes": "7"}, "one two"),
        ({"sinceSeconds": "1"}, "two three"),
    ],
)
def test_a_log_is_followed_until_the_run_ends(params: dict[str, str], texts: str) -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(containers=[container(script="echo one; sleep 5; echo two; sleep 5; echo three")])
        await stage.advance(3)
        lines = follow(stage, params)
        assert ("".join([text async for text in lines])).split() == texts.split()
        if "limitBytes" not in params:
            assert "terminated" in (await stage.status())["containerStatuses"][0]["lastState"]  # restarted

    play(scene)


def test_a_log_is_followed_until_the_pod_is_gone() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(containers=[container(script="echo one; sleep infinity")])
        lines = follow(stage, {})
        assert await anext(lines) == "one\n"
        await stage.cluster.delete(resource("pods"), "web", "default", grace_period_seconds=0)
        assert [text async for text in lines if text] == []

    play(scene)


def follow(stage: Nodes, params: dict[str, str]) -> AsyncIterator[str]:
    api = stage.server.api
    pods = api.registry.find("", "v1", "pods")
    assert pods is not None
    texts = {name: [text] for name, text in {"follow": "true", **params}.items()}
    answer = handle(Request(api, "get", pods, "default", "web", USER, pods.subresources["log"], texts))
    assert isinstance(answer, TextStreamAnswer)
    return answer.texts


def test_servers_of_tests_listen_on_their_ports() -> None:
    async def scene(stage: Nodes) -> None:
        def server(name: str, *args: str, **probe: Any) -> Tree:
            image, probe = "example.com/agnhost:2.59", {"periodSeconds": 1, **probe}
            return {"name": name, "image": image, "args": list(args), "readinessProbe": probe}

        containers = [
            server("right", "test-webserver", httpGet={"port": 80}),
            server("wrong", "test-webserver", httpGet={"port": 81}),
            server("grpc", "grpc-health-checking", grpc={"port": 2333}),
            server("any", "netexec", tcpSocket={"port": 81}),
            server("healthy", "liveness", httpGet={"port": 8080, "path": "/healthz"}),
        ]
        await stage.run_pod(containers=containers)
        await stage.advance(5)
        ready = {one["name"]: one["ready"] for one in (await stage.status())["containerStatuses"]}
        assert ready == {"right": True, "wrong": False, "grpc": False, "any": True, "healthy": True}
        await stage.advance(10)
        assert not (await stage.status())["containerStatuses"][-1]["ready"]

    play(scene)


def test_variables_show_the_limits_of_the_pod_where_containers_have_none() -> None:
    async def scene(stage: Nodes) -> None:
        env = [
            {"name": name, "valueFrom": {"resourceFieldRef": {"resource": f"limits.{name.lower()}"}}}
            for name in ("CPU", "MEMORY")
        ]
        await stage.run_pod(
            containers=[container(script="echo $CPU $MEMORY", env=env)],
            resources={"limits": {"cpu": "1250m", "memory": "64Mi"}},
            restartPolicy="Never",
        )
        await stage.advance(2)
        assert log(stage, "main") == "2 67108864\n"

    play(scene)


@pytest.mark.parametrize(
    ("context", "shown"),
    [
        ({}, "-rw-r--r-- 0 0"),
        ({"runAsUser": 1000}, "-rw------- 1000 0"),
        ({"fsGroup": 2000}, "-rw-r----- 0 2000"),
        ({"runAsUser": 1000, "fsGroup": 2000}, "-rw-r----- 1000 2000"),
    ],
)
def test_tokens_are_valid_while_their_pod_exists(context: Tree, shown: str) -> None:
    async def scene(stage: Nodes) -> None:
        api = stage.server.api
        await stage.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
        mount = {"name": "token", "mountPath": "/token"}
        args = ["mounttest", *(f"--file_{what}=/token/main" for what in ("perm", "owner", "content"))]
        files = {**container(), "image": "agnhost:2", "args": args, "volumeMounts": [mount]}
        projection = {"serviceAccountToken": {"path": "main", "expirationSeconds": 7200}}
        await stage.run_pod(
            containers=[files],
            volumes=[{"name": "token", "projected": {"sources": [projection]}}],
            securityContext=context,
            serviceAccountName="default",
            restartPolicy="Never",
        )
        await stage.advance(2)
        mode, uid, gid, token = (line.split(": ")[1] for line in log(stage, "main").splitlines() if line)
        assert f"{mode} {uid} {gid}" == shown
        user = user_of(api, token)
        assert user is not None
        assert user.name == "system:serviceaccount:default:default"
        await stage.cluster.delete(PODS, "web", "default", grace_period_seconds=0)
        assert user_of(api, token) is None

    play(scene)


@pytest.mark.parametrize(("grace", "seconds", "code"), [(30, 5, 7), (3, 3, 137)])
def test_containers_handle_the_signal_to_stop_within_their_grace_period(
    grace: int, seconds: int, code: int
) -> None:
    async def scene(stage: Nodes) -> None:
        script = "end() { sleep 5; exit 7; }; trap end TERM; while true; do sleep 1; done"
        body = pod("web", containers=[container(script=script)])
        body["metadata"]["finalizers"] = ["example.com/kept"]
        await stage.create(body)
        await stage.advance(2)
        await stage.cluster.delete(PODS, "web", "default", grace_period_seconds=grace)
        await stage.advance(seconds - 1)
        assert await stage.phase() == "Running"
        await stage.advance(2)
        status = await stage.status()
        assert status["phase"] == "Failed"
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code

    play(scene)
