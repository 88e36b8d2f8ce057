"""Commands that clients execute in containers."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.sandbox.programs.executing import NotRunningError
from mooring.sandbox.programs.program import Outcome
from tests.sandbox.kubelet.kit import Nodes, play

Tree = dict[str, Any]
DATA = {"name": "data", "emptyDir": {}}
MOUNT = {"name": "data", "mountPath": "/data"}
WEB: Tree = {
    "name": "web",
    "image": "nginx",
    "env": [{"name": "COLOR", "value": "blue"}],
    "volumeMounts": [MOUNT],
    "readinessProbe": {"exec": {"command": ["cat", "/data/ready"]}, "periodSeconds": 1},
}
SIDE: Tree = {
    "name": "side",
    "image": "busybox",
    "command": ["sh", "-c", "while [ ! -f /data/go ]; do sleep 1; done; exit 7"],
    "volumeMounts": [MOUNT],
}


class Pod:
    """A pod with two containers and a volume."""

    def __init__(self, stage: Nodes, uid: str) -> None:
        self._stage = stage
        self._uid = uid

    @classmethod
    async def run(cls, stage: Nodes) -> Pod:
        tree = await stage.run_pod(containers=[WEB, SIDE], volumes=[DATA], restartPolicy="Never")
        await stage.advance(2)
        return cls(stage, tree["metadata"]["uid"])

    def execute(
        self, *command: str, container: str = "web", stdin: str | None = None, is_dry: bool = False
    ) -> Outcome | None:
        containers = self._stage.server.api.containers
        return containers.execute(self._uid, container, command, stdin, is_dry=is_dry)

    def script(self, text: str, **options: Any) -> Outcome:
        outcome = self.execute("sh", "-c", text, **options)
        assert outcome is not None
        return outcome


def text(outcome: Outcome) -> str:
    return "".join(text for _, text in outcome.output)


def test_a_command_sees_the_variables_and_files_of_its_container() -> None:
    async def scene(stage: Nodes) -> None:
        pod = await Pod.run(stage)
        assert text(pod.script("echo $COLOR; echo 1 > /data/a; ls /data")) == "blue\na\n"
        assert text(pod.script("cat /data/a", container="side")) == "1\n"
        outcome = pod.script("echo out; echo bad >&2; sleep 2; cat /data/none; exit 3")
        assert (outcome.exit_code, outcome.run_time) == (3, 2.0)
        error = "cat: can't open '/data/none': No such file or directory\n"
        assert outcome.output == ((0.0, "out\n"), (0.0, "bad\n"), (2.0, error))
        assert outcome.errors == {1, 2}

    play(scene)


def test_probes_and_other_containers_see_what_a_command_has_written() -> None:
    async def scene(stage: Nodes) -> None:
        pod = await Pod.run(stage)
        assert [one["ready"] for one in (await stage.status())["containerStatuses"]] == [False, True]
        pod.script("touch /data/ready")
        await stage.advance(2)
        assert (await stage.status())["containerStatuses"][0]["ready"]
        pod.script("rm /data/ready; touch /data/go")
        await stage.advance(5)
        web, side = (await stage.status())["containerStatuses"]
        assert not web["ready"]
        assert side["state"]["terminated"]["exitCode"] == 7

    play(scene)


def test_a_dry_run_leaves_nothing() -> None:
    async def scene(stage: Nodes) -> None:
        pod = await Pod.run(stage)
        assert pod.script("touch /data/ready", is_dry=True).exit_code == 0
        assert text(pod.script("ls /data")) == ""

    play(scene)


def test_unknown_commands_leave_nothing_and_are_not_guessed() -> None:
    async def scene(stage: Nodes) -> None:
        pod = await Pod.run(stage)
        for script in ("touch /data/a; psql", "cat /etc/nginx/nginx.conf", "cat"):
            assert pod.execute("sh", "-c", script) is None
        assert text(pod.script("ls /data")) == ""
        assert text(pod.script("cat", stdin="typed\n")) == "typed\n"
        assert pod.script("cat", stdin="x" * 400_000).exit_code == 0
        assert pod.execute("wc", "-c", stdin="x" * 4_000_000) is None  # too much work

    play(scene)


def test_the_working_directory_of_a_command_is_its_own() -> None:
    async def scene(stage: Nodes) -> None:
        pod = await Pod.run(stage)
        assert text(pod.script("cd /data; pwd; touch a")) == "/data\n"
        assert text(pod.script("pwd; ls data; cd /data/a || cd /data/b")) == (
            "/\na\n/bin/sh: cd: can't cd to /data/a: Not a directory\n"
            "/bin/sh: cd: can't cd to /data/b: No such file or directory\n"
        )

    play(scene)


def test_a_shell_remembers_variables_and_its_directory() -> None:
    async def scene(stage: Nodes) -> None:
        pod = await Pod.run(stage)
        run = stage.server.api.containers.open_shell(pod._uid, "web")
        for line in ("x=5", "cd /data", "echo $x > f"):
            assert run(line) is not None
        assert run("psql") is None
        outcome = run("pwd; cat f")
        assert outcome is not None
        assert text(outcome) == "/data\n5\n"

    play(scene)


@pytest.mark.parametrize(
    "line", ["export " + " ".join(f"A{{0}}_{n}=$X" for n in range(90)), "f{0}() {{ " + ": a; " * 450 + "}}"]
)
def test_what_a_shell_remembers_is_bounded(line: str) -> None:
    async def scene(stage: Nodes) -> None:
        tree = await stage.run_pod(containers=[WEB, SIDE], volumes=[DATA])
        await stage.advance(2)
        run = stage.server.api.containers.open_shell(tree["metadata"]["uid"], "web")
        for assignment in ("X=0123456789abcdef", *["X=$X$X"] * 9):
            assert run(assignment) is not None
        known = 0
        while run(line.format(known)) is not None:
            known += 1
            assert known < 20
        assert known > 1

    play(scene)


def test_only_running_containers_execute_commands() -> None:
    async def scene(stage: Nodes) -> None:
        pod = await Pod.run(stage)
        run = stage.server.api.containers.open_shell(pod._uid, "side")
        with pytest.raises(NotRunningError):
            pod.execute("true", container="nope")
        pod.script("touch /data/go")
        await stage.advance(5)
        with pytest.raises(NotRunningError):
            pod.execute("true", container="side")
        with pytest.raises(NotRunningError):
            run("true")
        await stage.annotate("node-1", "true")
        with pytest.raises(NotRunningError):
            pod.execute("true")

    play(scene)


def test_files_of_images_and_of_image_volumes() -> None:
    async def scene(stage: Nodes) -> None:
        volumes = [
            {
                "name": "pictures",
                "image": {"reference": "registry.k8s.io/e2e-test-images/kitten:1.7", "pullPolicy": "Always"},
            }
        ]
        mount = {"name": "pictures", "mountPath": "/pictures", "readOnly": True}
        main = {"name": "web", "image": "alpine:3", "command": ["sleep", "600"], "volumeMounts": [mount]}
        tree = await stage.run_pod(containers=[main], volumes=volumes)
        pod = Pod(stage, tree["metadata"]["uid"])
        assert "kitten.jpg" in text(pod.script("cat /pictures/data.json"))
        for path in ("/etc/os-release", "/pictures/etc/os-release"):
            assert "ID=alpine\n" in text(pod.script(f"cat {path}"))
        assert pod.script("echo x > /pictures/data.json").exit_code == 1
        assert pod.execute("cat", "/pictures/picture") is None

    play(scene)


def test_a_file_of_an_image_that_is_moved_away_is_not_served() -> None:
    async def scene(stage: Nodes) -> None:
        probe = {"httpGet": {"path": "/localhost.crt", "port": 80}, "periodSeconds": 1, "failureThreshold": 1}
        main = {"name": "web", "image": "agnhost", "args": ["test-webserver"], "readinessProbe": probe}
        tree = await stage.run_pod(containers=[main])
        await stage.advance(2)
        pod = Pod(stage, tree["metadata"]["uid"])
        assert (await stage.status())["containerStatuses"][0]["ready"]
        assert (
            text(pod.script("mv -v /localhost.crt /tmp/ || true"))
            == "'/localhost.crt' -> '/tmp/localhost.crt'\n"
        )
        await stage.advance(2)
        assert not (await stage.status())["containerStatuses"][0]["ready"]
        pod.script("mv -v /tmp/localhost.crt / || true")
        await stage.advance(2)
        assert (await stage.status())["containerStatuses"][0]["ready"]

    play(scene)
