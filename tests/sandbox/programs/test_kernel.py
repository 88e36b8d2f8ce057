"""What containers see of Linux: users, privileges, cgroups, parameters and mounts."""

from __future__ import annotations

import pytest

from mooring.api.meta import ObjectMeta
from mooring.sandbox.programs.cgroups import Limits, pod_path
from mooring.sandbox.programs.kernel import Shares, id_range
from mooring.sandbox.programs.program import run_program
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import (
    Capabilities,
    ContainerSpec,
    EmptyDir,
    RunSpec,
    SeccompProfile,
    SecurityContext,
    Sysctl,
    VolumeMount,
    VolumeSpec,
)
from mooring.sandbox.programs.volume import Volume
from mooring.sandbox.programs.volumes import Volumes

SOURCES = Sources(ObjectMeta(name="p", namespace="d"))
SHARES = Shares(Limits(10**9, 2 * 10**9, 2**20 * 10**9), 875, 4)
VOLUMES = [
    VolumeSpec(name="data", empty_dir=EmptyDir()),
    VolumeSpec(name="fast", empty_dir=EmptyDir(medium="Memory")),
]


def run(
    script: str,
    own: SecurityContext | None = None,
    pod: SecurityContext | None = None,
    image: str = "busybox",
) -> tuple[int, str]:
    """Run a script in a container, and return its exit code and output."""
    mounts = [VolumeMount(name=one.name, mount_path=f"/{one.name}") for one in VOLUMES]
    spec = ContainerSpec(
        name="c", image=image, command=["sh", "-c", script], volume_mounts=mounts, security_context=own
    )
    volumes = Volumes(
        RunSpec(containers=[spec], volumes=VOLUMES, security_context=pod),
        SOURCES,
        Volume(complete=False),
        0.0,
    )
    outcome = run_program(spec, SOURCES, volumes.mount(spec, {}, lambda: SHARES, 0.0), 0.0)
    assert outcome is not None, script
    return outcome.exit_code, "".join(text for _, text in outcome.output)


def status(line: str, own: SecurityContext | None = None, pod: SecurityContext | None = None) -> str:
    return run(f"grep {line} /proc/1/status", own, pod)[1].removesuffix("\n")


@pytest.mark.parametrize(
    ("limits", "quota", "weight", "memory"),
    [
        (Limits(), "max 100000", 1, "max"),
        (Limits(cpu_request=10**9, cpu_limit=5 * 10**8), "50000 100000", 100, "max"),
        (Limits(cpu_limit=2 * 10**9), "200000 100000", 174, "max"),
        (Limits(cpu_request=10**6, cpu_limit=5 * 10**6), "1000 100000", 1, "max"),
        (Limits(cpu_request=500 * 10**9, memory_limit=10**8 * 10**9), "max 100000", 10000, "99999744"),
    ],
)
def test_cgroups_have_the_limits_of_containers(limits: Limits, quota: str, weight: int, memory: str) -> None:
    files = limits.files()
    assert files == {"cpu.max": f"{quota}\n", "cpu.weight": f"{weight}\n", "memory.max": f"{memory}\n"}


def test_cgroups_of_pods_are_in_the_folder_of_their_class() -> None:
    assert pod_path("a-b", "Guaranteed") == "sys/fs/cgroup/kubepods.slice/kubepods-poda_b.slice"
    folder = "sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poda_b.slice"
    assert pod_path("a-b", "BestEffort") == folder


def test_capabilities_are_those_of_containerd_with_what_is_added_and_dropped() -> None:
    assert status("CapEff") == "CapEff:\t00000000a80425fb"
    assert status("CapEff", SecurityContext(run_as_user=1001)) == "CapEff:\t0000000000000000"
    changed = SecurityContext(capabilities=Capabilities(add=["NET_ADMIN", "SYS_TIME"]))
    assert status("CapPrm", changed) == "CapPrm:\t00000000aa0435fb"
    bound = SecurityContext(capabilities=Capabilities(add=["NET_BIND_SERVICE"], drop=["ALL"]))
    assert status("CapBnd", bound) == "CapBnd:\t0000000000000400"
    assert status("CapEff", SecurityContext(privileged=True)) == "CapEff:\t000001ffffffffff"


def test_a_process_shows_what_it_must_not_do() -> None:
    strict = SecurityContext(
        allow_privilege_escalation=False, seccomp_profile=SeccompProfile(type="RuntimeDefault")
    )
    assert (status("NoNewPrivs", strict), status("Seccomp:", strict)) == ("NoNewPrivs:\t1", "Seccomp:\t2")
    assert (status("NoNewPrivs"), status("Seccomp:")) == ("NoNewPrivs:\t0", "Seccomp:\t0")
    pod = SecurityContext(seccomp_profile=SeccompProfile(type="RuntimeDefault"))
    unconfined = SecurityContext(seccomp_profile=SeccompProfile(type="Unconfined"))
    assert (status("Seccomp:", pod=pod), status("Seccomp:", unconfined, pod)) == (
        "Seccomp:\t2",
        "Seccomp:\t0",
    )
    assert run("cat /proc/self/oom_score_adj /proc/1/cgroup")[1] == "875\n0::/\n"


def test_privileges_decide_what_the_kernel_allows() -> None:
    denied = "ip: RTNETLINK answers: Operation not permitted\n"
    assert run("ip link add dummy0 type dummy") == (2, denied)
    assert run("ip link add dummy0 type dummy", SecurityContext(privileged=True)) == (0, "")


def test_kernel_parameters_are_those_of_the_pod_and_cannot_be_set() -> None:
    pod = SecurityContext(sysctls=[Sysctl(name="net.core.somaxconn", value="1024")])
    assert run("sysctl net.core.somaxconn", pod=pod) == (0, "net.core.somaxconn = 1024\n")
    failure = "sysctl: error setting key 'net.core.somaxconn': Read-only file system\n"
    assert run("sysctl -w net.core.somaxconn=1", pod=pod) == (1, failure)
    assert run("echo 1 > /proc/sys/net/core/somaxconn", pod=pod)[0] == 1


def test_mounts_are_listed() -> None:
    kernel = "cgroup on /sys/fs/cgroup type cgroup2 (ro,nosuid,nodev,noexec,relatime)\n"
    assert run("mount -t cgroup2") == (0, kernel)
    lines = run("mount")[1].splitlines()
    assert "tmpfs on /fast type tmpfs (rw,relatime)" in lines
    assert "/dev/vda1 on /data type ext4 (rw,relatime)" in lines


@pytest.mark.parametrize(
    ("image", "user", "expected"),
    [
        ("busybox", SecurityContext(), "uid=0(root) gid=0(root) groups=0(root),10(wheel)\n"),
        ("busybox", SecurityContext(run_as_user=1001), "uid=1001 gid=0(root) groups=0(root)\n"),
        (
            "busybox",
            SecurityContext(run_as_user=65534),
            "uid=65534(nobody) gid=65534(nobody) groups=65534(nobody)\n",
        ),
        (
            "agnhost:2.5",
            SecurityContext(run_as_user=1000, supplemental_groups=[60000]),
            "uid=1000(user-defined-in-image) gid=1000(user-defined-in-image) "
            "groups=1000(user-defined-in-image),50000(group-defined-in-image),60000\n",
        ),
        (
            "debian",
            SecurityContext(run_as_user=1001, run_as_group=3000, fs_group=2000),
            "uid=1001 gid=3000 groups=3000,2000\n",
        ),
    ],
)  # fmt: skip
def test_id_shows_the_users_of_an_image(image: str, user: SecurityContext, expected: str) -> None:
    assert run("id", pod=user, image=image) == (0, expected)


def test_groups_of_an_image_are_left_out_by_a_strict_policy() -> None:
    pod = SecurityContext(run_as_user=1000, supplemental_groups=[60000], supplemental_groups_policy="Strict")
    assert run("id -G", pod=pod, image="agnhost") == (0, "1000 60000\n")


def test_whoami_names_the_user() -> None:
    assert run("whoami") == (0, "root\n")
    assert run("whoami", SecurityContext(run_as_user=1002)) == (1, "whoami: unknown uid 1002\n")


def test_a_program_of_root_runs_as_root_unless_that_is_forbidden() -> None:
    strict = SecurityContext(run_as_user=1000, allow_privilege_escalation=False)
    assert run("nnp", strict) == (0, "Effective uid: 1000\n")
    assert run("nnp", SecurityContext(run_as_user=1000)) == (0, "Effective uid: 0\n")


def test_find_lists_the_files_below_a_folder() -> None:
    make = "mkdir -p /data/a/b; touch /data/a/b/one.txt /data/two;"
    everything = "/data\n/data/a\n/data/a/b\n/data/a/b/one.txt\n/data/two\n"
    assert run(f"{make} find /data") == (0, everything)
    assert run(f"{make} find /data -type f") == (0, "/data/a/b/one.txt\n/data/two\n")
    assert run(f"{make} find /data -name '*.txt' -o -name two -type d") == (0, "/data/a/b/one.txt\n")
    assert run("find /data/none") == (1, "find: /data/none: No such file or directory\n")


def test_a_pod_with_a_user_namespace_has_users_of_its_own() -> None:
    assert id_range("a", None) == id_range("a", True) == (0, 0, 2**32 - 1)
    first, second = id_range("a", False), id_range("b", False)
    assert first != second
    assert first[0] == first[1] % 65_536 == 0
    assert first[2] == 65_536
    assert run("cat /proc/self/uid_map")[1].split() == ["0", "0", "4294967295"]


def test_a_privilege_is_needed_for_a_network_device() -> None:
    privileged = SecurityContext(privileged=True)
    assert run("ip link add d type dummy && ip link del d", privileged) == (0, "")
    assert run("ip link del d")[0] == 2
