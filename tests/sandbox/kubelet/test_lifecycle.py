"""Hooks, probes of programs that do not serve, containers that restart together, and the end of a pod."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.sandbox.apiserver.dispatch import handle
from mooring.sandbox.apiserver.verbs.request import Request, TextAnswer
from tests.sandbox.apiserver.kit import USER
from tests.sandbox.kubelet.kit import Nodes, condition, play, pod
from tests.sandbox.kubelet.test_commands import container, states

Tree = dict[str, Any]

RESTART_ALL = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
ONCE = "if [ -f /mnt/done ]; then sleep 10000; else touch /mnt/done; sleep 5; exit 42; fi"
SHARED: Tree = {"volumes": [{"name": "shared", "emptyDir": {}}]}
MOUNTS = [{"name": "shared", "mountPath": "/mnt"}]


def read_log(stage: Nodes, name: str = "web") -> str:
    api = stage.server.api
    pods = api.registry.find("", "v1", "pods")
    assert pods is not None
    answer = handle(Request(api, "get", pods, "default", name, USER, pods.subresources["log"]))
    assert isinstance(answer, TextAnswer)
    return answer.text


def test_an_exit_can_restart_all_containers() -> None:
    async def scene(stage: Nodes) -> None:
        own = {"restartPolicy": "Never", "restartPolicyRules": RESTART_ALL, "volumeMounts": MOUNTS}
        await stage.run_pod(
            restartPolicy="Never",
            initContainers=[container("init", "exit 0"), container("proxy", restartPolicy="Always")],
            containers=[container("source", ONCE, **own), container("other", "sleep 10000")],
            **SHARED,
        )
        await stage.advance(5.5)
        status = await stage.status()
        everything = [*status["initContainerStatuses"], *status["containerStatuses"]]
        assert {one["state"]["waiting"]["reason"] for one in everything} == {"RestartingAllContainers"}
        assert {one["lastState"]["terminated"]["exitCode"] for one in everything} == {137}
        assert status["phase"] == "Running"
        restarting = condition({"status": status}, "AllContainersRestarting")
        assert (restarting["status"], restarting["reason"]) == ("True", "RestartAllContainersStarted")
        assert condition({"status": status}, "Initialized")["status"] == "True"
        await stage.advance(1)
        status = await stage.status()
        everything = [*status["initContainerStatuses"], *status["containerStatuses"]]
        assert states(everything) == ["terminated", "running", "running", "running"]
        assert [one["restartCount"] for one in everything] == [1, 1, 1, 1]
        assert {one["lastState"]["terminated"]["reason"] for one in everything} == {"RestartingAllContainers"}
        assert condition({"status": status}, "AllContainersRestarting")["status"] == "False"

    play(scene)


def test_nodes_declare_what_pods_that_restart_together_need() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "of-a-user"}})
        await stage.rest()
        for name in ("node-1", "of-a-user"):
            declared = (await stage.node(name))["status"]["declaredFeatures"]
            assert "RestartAllContainersOnContainerExits" in declared
            assert declared == sorted(declared)

    play(scene)


def test_a_folder_of_a_volume_in_memory_has_the_bits_of_a_tmpfs() -> None:
    async def scene(stage: Nodes) -> None:
        mount = {"name": "m", "mountPath": "/m", "subPath": "new"}
        agnhost = {"image": "e2e-test-images/agnhost:2.63.0", "args": ["mounttest", "--file_mode=/m"]}
        await stage.run_pod(
            containers=[{"name": "main", "volumeMounts": [mount], **agnhost}],
            restartPolicy="Never",
            securityContext={"fsGroup": 123},
            volumes=[{"name": "m", "emptyDir": {"medium": "Memory"}}],
        )
        await stage.advance(1)
        assert read_log(stage) == 'mode of file "/m": dgtrwxrwxrwx\n'

    play(scene)


def test_variables_come_from_files_of_a_volume() -> None:
    def variable(name: str, key: str, **fields: Any) -> Tree:
        ref = {"volumeName": "shared", "path": "app.env", "key": key, **fields}
        return {"name": name, "valueFrom": {"fileKeyRef": ref}}

    async def scene(stage: Nodes) -> None:
        write = r"echo A=\'1 2\' '# both' > /mnt/app.env"
        env = [variable("A", "A"), variable("B", "MISSING", optional=True)]
        await stage.run_pod(
            restartPolicy="Never",
            initContainers=[container("init", write, volumeMounts=MOUNTS)],
            containers=[container(script='echo "$A"; env | grep -E "(B=|C=)"', env=env)],
            **SHARED,
        )
        await stage.advance(2)
        assert read_log(stage) == "1 2\n"
        await stage.run_pod("lost", containers=[container(env=[variable("A", "A")])], **SHARED)
        waiting = (await stage.status("lost"))["containerStatuses"][0]["state"]["waiting"]
        assert waiting == {"reason": "CreateContainerConfigError", "message": "couldn't parse env file"}

    play(scene)


def test_hooks_see_the_variables_and_files_of_their_container() -> None:
    def hook(script: str) -> Tree:
        return {"exec": {"command": ["sh", "-c", script]}}

    async def scene(stage: Nodes) -> None:
        lifecycle = {
            "postStart": hook("echo lost; echo begin $A > /tmp/begun"),
            "preStop": hook("echo end $A >> /proc/1/fd/1; sleep 5"),
        }
        env = [{"name": "A", "value": "x"}]
        script = "sleep 1; cat /tmp/begun; sleep 1000"
        await stage.run_pod(containers=[container(script=script, env=env, lifecycle=lifecycle)])
        await stage.advance(2)
        assert read_log(stage) == "begin x\n"
        await stage.delete("pods", "web")
        await stage.advance(2)
        assert read_log(stage) == "begin x\nend x\n"
        failing = container(script="sleep 1000", lifecycle={"postStart": hook("exit 1")})
        await stage.run_pod("failing", containers=[failing], restartPolicy="Never")
        await stage.advance(1)
        ended = (await stage.status("failing"))["containerStatuses"][0]["state"]["terminated"]
        assert ended["exitCode"] == 137
        assert "FailedPostStartHook" in await stage.reasons("failing")

    play(scene)


@pytest.mark.parametrize(
    ("hook", "grace", "seconds", "fails"),
    [
        ({"sleep": {"seconds": 20}}, 10, 11, False),
        ({"exec": {"command": ["false"]}}, 10, 1, True),
        ({"httpGet": {"port": 81}}, 10, 1, True),
    ],
)
def test_containers_get_the_signal_to_stop_after_their_hooks(
    hook: Tree, grace: int, seconds: int, fails: bool
) -> None:
    async def scene(stage: Nodes) -> None:
        main = container(script="trap 'sleep 1; exit 7' TERM; while true; do sleep 1; done")
        main["lifecycle"] = {"preStop": hook}
        await stage.run_pod(containers=[main], metadata={"finalizers": ["example.com/kept"]})
        await stage.advance(2)
        await stage.delete("pods", "web", grace=grace)
        await stage.advance(seconds - 1)
        assert await stage.phase() == "Running"
        await stage.advance(1.5)
        (ended,) = (await stage.status())["containerStatuses"]
        assert ended["state"]["terminated"]["exitCode"] == 7
        assert ("FailedPreStopHook" in await stage.reasons()) is fails

    play(scene)


@pytest.mark.parametrize(("port", "ready"), [(80, True), (81, False)])
def test_agnhost_listens_at_the_port_of_its_flag(port: int, ready: bool) -> None:
    async def scene(stage: Nodes) -> None:
        probe = {"httpGet": {"path": "/", "port": port}}
        server = {"image": "e2e-test-images/agnhost:2.63.0", "args": ["test-webserver", "--port", "80"]}
        sidecar = {"name": "server", "restartPolicy": "Always", "readinessProbe": probe, **server}
        await stage.run_pod(initContainers=[sidecar])
        await stage.advance(2)
        assert (condition(await stage.get("pods", "web"), "Ready")["status"] == "True") is ready

    play(scene)


def test_nothing_listens_where_a_program_is_known_not_to_serve() -> None:
    async def scene(stage: Nodes) -> None:
        probe = {"httpGet": {"path": "/healthz", "port": 8080}, "failureThreshold": 1, "periodSeconds": 1}
        await stage.run_pod(containers=[container(script="sleep 1000", livenessProbe=probe)])
        await stage.run_pod("image", containers=[container(image="web:1", livenessProbe=probe)])
        await stage.advance(2)
        ip = (await stage.status())["podIP"]
        refused = f'Get "http://{ip}:8080/healthz": dial tcp {ip}:8080: connect: connection refused'
        unhealthy = [one.message for one in await stage.events() if one.reason == "Unhealthy"]
        assert unhealthy[0] == f"Liveness probe failed: {refused}"
        assert (await stage.status())["containerStatuses"][0]["restartCount"] >= 1
        assert (await stage.status("image"))["containerStatuses"][0]["restartCount"] == 0

    play(scene)


@pytest.mark.parametrize(("target", "restarts"), [("/healthz", 1), ("http://0.0.0.0/", 0)])
def test_redirects_of_a_probe_are_followed_on_the_same_host_only(target: str, restarts: int) -> None:
    async def scene(stage: Nodes) -> None:
        get = {"path": f"/redirect?loc={target}", "port": 8080}
        probe = {"httpGet": get, "initialDelaySeconds": 12, "failureThreshold": 1}
        agnhost = {"image": "registry.k8s.io/e2e-test-images/agnhost:2.57", "args": ["liveness"]}
        await stage.run_pod(containers=[{"name": "main", "livenessProbe": probe, **agnhost}])
        await stage.advance(14)
        assert (await stage.status())["containerStatuses"][0]["restartCount"] == restarts
        warnings = [one.message for one in await stage.events() if one.reason == "ProbeWarning"]
        body = 'Probe terminated redirects, Response body: <a href="http://0.0.0.0/">Found</a>.'
        assert any(body in one for one in warnings) is (restarts == 0)

    play(scene)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"os": {"name": "windows"}}, "PodOSNotSupported"),
        ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, "SysctlForbidden"),
        ({"securityContext": {"sysctls": [{"name": "kernel/shm_rmid_forced", "value": "1"}]}}, ""),
    ],
)
def test_a_linux_node_rejects_what_it_cannot_run(spec: Tree, reason: str) -> None:
    async def scene(stage: Nodes) -> None:
        status = (await stage.run_pod(**spec))["status"]
        assert status.get("reason", "") == reason
        assert status["phase"] == ("Failed" if reason else "Running")

    play(scene)


@pytest.mark.parametrize("separator", [".", "/"])
def test_containers_see_the_kernel_parameters_of_their_pod(separator: str) -> None:
    async def scene(stage: Nodes) -> None:
        name = f"kernel{separator}shm_rmid_forced"
        main = {"name": "main", "image": "busybox", "command": ["/bin/sysctl", name]}
        context = {"sysctls": [{"name": name, "value": "1"}]}
        await stage.run_pod(containers=[main], restartPolicy="Never", securityContext=context)
        await stage.advance(1)
        assert read_log(stage) == "kernel.shm_rmid_forced = 1\n"

    play(scene)


def test_watchers_see_how_a_deleted_pod_ended() -> None:
    async def scene(stage: Nodes) -> None:
        seen: list[tuple[str, str]] = []
        stage.pods.subscribe(
            lambda old, new: seen.append((new.status.phase, condition_of(new))) if new is not None else None
        )
        await stage.run_pod()
        await stage.delete("pods", "web")
        await stage.rest()
        assert await stage.names() == []
        assert seen[-1] == ("Failed", "False")

    def condition_of(one: Any) -> str:
        return next((each.status for each in one.status.conditions if each.type == "Ready"), "")

    play(scene)


def test_a_container_that_ends_while_it_is_stopped_keeps_its_exit_code() -> None:
    async def scene(stage: Nodes) -> None:
        main = container(script="sleep 3; exit 1")
        held = {"finalizers": ["example.com/hold"]}
        await stage.run_pod(containers=[main], metadata=held, run={"stop-time": "10s"})
        await stage.advance(1)
        await stage.delete("pods", "web")
        await stage.advance(11)
        ended = (await stage.status())["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], ended["finishedAt"]) == (1, "2030-01-01T00:00:03Z")

    play(scene)


def test_the_api_of_a_kubelet_lists_its_pods() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod()
        await stage.create(pod("elsewhere", node="node-2"))
        nodes = stage.server.api.registry.find("", "v1", "nodes")
        assert nodes is not None

        def ask(path: str, name: str = "node-1:10250") -> Any:
            proxy = nodes.subresources["proxy"]
            return handle(Request(stage.server.api, "get", nodes, "", name, USER, proxy, path=path))

        listed = ask("pods/").tree
        assert [(one["kind"], one["metadata"]["name"]) for one in listed["items"]] == [("Pod", "web")]
        assert ask("healthz", "node-1").text == "ok"

    play(scene)


def test_containers_in_the_network_of_a_node_see_host_aliases() -> None:
    async def scene(stage: Nodes) -> None:
        aliases = [{"ip": "10.1.2.3", "hostnames": ["foo", "bar"]}]
        main = container(script="cat /etc/hosts")
        await stage.run_pod(containers=[main], hostNetwork=True, hostAliases=aliases, restartPolicy="Never")
        await stage.advance(1)
        assert read_log(stage).endswith("# Entries added by HostAliases.\n10.1.2.3\tfoo\tbar\n")

    play(scene)
