"""Symbolic links, and the sizes of volumes."""

from __future__ import annotations

import stat

import pytest

from mooring.sandbox.programs.file import File
from mooring.sandbox.programs.kernel import Shares
from mooring.sandbox.programs.program import run_program
from mooring.sandbox.programs.specs import (
    ContainerSpec,
    EmptyDir,
    HostPath,
    Resources,
    RunSpec,
    VolumeMount,
    VolumeSpec,
)
from mooring.sandbox.programs.volume import Volume
from mooring.sandbox.programs.volumes import SubPathError, Volumes
from tests.sandbox.programs.test_files import SOURCES

NODE = SOURCES._replace(capacity={"ephemeral-storage": "100Gi"})
VOLUMES = [
    VolumeSpec(name="data", empty_dir=EmptyDir()),
    VolumeSpec(name="memory", empty_dir=EmptyDir(medium="Memory", size_limit="10Mi")),
    VolumeSpec(name="node", host_path=HostPath(path="/tmp/link")),
]


class Pod:
    """A pod, whose containers run one after another."""

    def __init__(self, *, image: str = "busybox") -> None:
        self.image, self.host = image, Volume(complete=False, known=("tmp",))
        self.now = 0.0
        spec = ContainerSpec(resources=Resources(limits={"memory": "1Gi"}))
        self.volumes = Volumes(RunSpec(containers=[spec], volumes=VOLUMES), NODE, self.host, 0.0)

    def run(self, script: str, *, at: str = "/vol/data", volume: str = "data", sub_path: str = "") -> str:
        """Run a script with a volume at a path, and return what it prints."""
        self.now += 1
        mounts = [VolumeMount(name=volume, mount_path=at, sub_path=sub_path)]
        command = ["sh", "-c", script]
        spec = ContainerSpec(name="main", image=self.image, command=command, volume_mounts=mounts)
        outcome = run_program(spec, NODE, self.volumes.mount(spec, {}, Shares, self.now), self.now)
        assert outcome is not None, "unknown command"
        return "".join(text for _, text in outcome.output)


@pytest.mark.parametrize(
    ("script", "output"),
    [
        ("ln -s a b; readlink b; cat b; echo 2 > b; cat a", "a\n1\n2\n"),
        ("ln -s /vol/data/a b; readlink -f b; realpath b", "/vol/data/a\n/vol/data/a\n"),
        ("ln -s d e; cat e/f; cat e/../a; ls e; cd e; pwd; cat ../a", "3\n1\nf\n/vol/data/e\n1\n"),
        ("ln -s a d; readlink d/a; ln -sfn a d/a; ls d", "a\na\nf\n"),
        ("ln -s a b; ln -s a b", "ln: b: File exists\n"),
        ("ln -s a b; rm b; cat a; ls", "1\na\nd\n"),
        ("ln -s d e; rm -r e; cat d/f", "3\n"),
        ("ln -s a b; mv b c; readlink c; cp c k; echo 4 > a; cat k", "a\n1\n"),
        ("ln -s a b; mv d/f b; cat a b", "1\n3\n"),
        ("ln -s no b; cat b; [ -e b ] || [ -L b ] && echo link; echo 5 > b; cat no",
         "cat: can't open 'b': No such file or directory\nlink\n5\n"),
        ("ln -s b c; ln -s c b; cat b; realpath b",
         "cat: can't open 'b': Too many levels of symbolic links\nrealpath: b: No such file or directory\n"),
        ("ln -s ../.. up; cat up/vol/data/a", "1\n"),
        ("ln -s d e; find . -type l; find /vol -type f; stat -c %A e; stat -L -c %A e",
         "./e\n/vol/data/a\n/vol/data/d/f\nlrwxrwxrwx\ndrwxr-xr-x\n"),
        ("ln -s a b; ls -l b | awk '{print $1}'; readlink a || echo none", "lrwxrwxrwx\nnone\n"),
        ("ln -s d e; tar cf - e > t; mkdir x; cat t | tar xf - -C x; readlink x/e", "d\n"),
    ],
)  # fmt: skip
def test_commands(script: str, output: str) -> None:
    assert Pod().run(f"cd /vol/data; echo 1 > a; mkdir d; echo 3 > d/f; {script}") == output


def test_a_link_is_seen_by_later_containers_and_resolved_where_it_is_read() -> None:
    pod = Pod()
    pod.run("cd /vol/data; echo 1 > a; ln -s /tmp/a absolute; echo 2 > /tmp/a; ln -s a relative")
    assert pod.run("cat /elsewhere/relative; cat /elsewhere/absolute", at="/elsewhere") == (
        "1\ncat: can't open '/elsewhere/absolute': No such file or directory\n"
    )


def test_a_sub_path_does_not_lead_out_of_its_volume() -> None:
    pod = Pod()
    pod.run("cd /vol/data; mkdir d; echo 1 > d/f; ln -s d in; ln -s /bin out; ln -s .. up; ln -s no dangling")
    assert pod.run("cat /vol/data/f", sub_path="in") == "1\n"
    for sub_path, what in (("out", "prepare subPath"), ("up", "prepare subPath"),
                           ("dangling", "create subPath directory")):  # fmt: skip
        with pytest.raises(SubPathError) as error:
            pod.run("true", sub_path=sub_path)
        assert str(error.value) == f'failed to {what} for volumeMount "data" of container "main"'


def test_a_path_of_a_node_may_be_a_link() -> None:
    pod = Pod()
    pod.host.write("tmp/real/f", File("1\n"), 0.0)
    pod.host.write("tmp/link", File("/tmp/real", stat.S_IFLNK | 0o777), 0.0)
    assert pod.run("cat /vol/data/f", volume="node") == "1\n"


def test_missing_folders_of_nodes_are_created() -> None:
    pod = Pod()
    script = "echo 1 > /vol/data/f; stat -c %A /vol/data"
    assert pod.run(script, volume="node", sub_path="a/b") == "drwxr-xr-x\n"
    assert pod.run("cd /vol/data; cat a/b/f; rm -r a; ls", volume="node") == "1\n"


def test_folders_above_mounted_volumes() -> None:
    script = "ls /vol; find /vol -type d"
    assert Pod().run(script, at="/vol/deep") == "deep\n/vol\n/vol/deep\n"
    assert Pod().run("test -d /usr/share && echo yes", at="/usr/share/data") == "yes\n"


def test_sizes_of_volumes() -> None:
    pod = Pod()
    pod.run("dd if=/dev/zero of=/vol/data/big bs=1M count=4", volume="memory")
    assert pod.run("df | grep /vol", volume="memory").split() == [
        "tmpfs", "10240", "4096", "6144", "40%", "/vol/data",
    ]  # fmt: skip
    assert pod.run("df -h /vol/data", volume="memory").splitlines()[1].split()[1:3] == ["10.0M", "4.0M"]
    full = "dd: can't open '/vol/data/more': No space left on device\n"
    assert pod.run("dd if=/dev/zero of=/vol/data/more bs=1M count=7", volume="memory") == full
    assert pod.run("ln -s a /tmp/b; df / | tail -1").split() == [
        "overlay",
        "104857600",
        "0",
        "104857600",
        "0%",
        "/",
    ]
