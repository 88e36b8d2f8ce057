"""The files and variables that containers see."""

from __future__ import annotations

import pytest

from mooring.api.meta import ObjectMeta
from mooring.sandbox.programs.file import File, FileError
from mooring.sandbox.programs.files import Files, Mount
from mooring.sandbox.programs.kernel import Shares
from mooring.sandbox.programs.program import run_program
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.space import Space
from mooring.sandbox.programs.specs import (
    ConfigMapVolume,
    ContainerSpec,
    DownwardItem,
    DownwardVolume,
    EmptyDir,
    EnvFrom,
    EnvVar,
    EnvVarSource,
    FieldRef,
    KeyRef,
    KeyToPath,
    ProjectedVolume,
    Projection,
    ResourceFieldRef,
    Resources,
    RunSpec,
    SecretVolume,
    SecurityContext,
    VolumeMount,
    VolumeSpec,
)
from mooring.sandbox.programs.user import User
from mooring.sandbox.programs.volume import Volume
from mooring.sandbox.programs.volumes import SubPathError, Volumes, expand_sub_path

SOURCES = Sources(
    ObjectMeta(name="web", namespace="shop", labels={"app": "web", "tier": 'a"b'}),
    config_maps={"settings": {"color": "blue", "size": "\udcff"}, "absent": None},
    secrets={"login": {"password": "xyz"}},
    services={"DB_SERVICE_HOST": "10.0.0.7"},
    fields={"status.podIP": "10.1.0.5"},
    allocatable={"cpu": "16", "memory": "64Gi"},
)
HOST = Volume(complete=False)
VOLUMES = [
    VolumeSpec(name="settings", config_map=ConfigMapVolume(name="settings", default_mode=0o400)),
    VolumeSpec(
        name="login",
        secret=SecretVolume(
            secret_name="login", items=[KeyToPath(key="password", path="deep/pass", mode=0o440)]
        ),
    ),
    VolumeSpec(
        name="all",
        projected=ProjectedVolume(
            sources=[
                Projection(config_map=ConfigMapVolume(name="settings")),
                Projection(
                    downward_api=DownwardVolume(
                        items=[DownwardItem(path="labels", field_ref=FieldRef(field_path="metadata.labels"))]
                    )
                ),
            ]
        ),
    ),
    VolumeSpec(name="scratch", empty_dir=EmptyDir(medium="Memory")),
]
MOUNTS = [VolumeMount(name=one.name, mount_path=f"/{one.name}") for one in VOLUMES]


def run(*command: str, context: SecurityContext | None = None, **fields: object) -> tuple[int, str] | None:
    spec = ContainerSpec(image="busybox", command=list(command), volume_mounts=MOUNTS, **fields)  # type: ignore[arg-type]
    volumes = Volumes(
        RunSpec(containers=[spec], volumes=VOLUMES, security_context=context), SOURCES, HOST, 0.0
    )
    outcome = run_program(spec, SOURCES, volumes.mount(spec, {}, Shares, 0.0), 0.0)
    return None if outcome is None else (outcome.exit_code, "".join(text for _, text in outcome.output))


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("cat /settings/color", (0, "blue")),
        ("cat /login/deep/pass", (0, "xyz")),
        ("cat /all/labels", (0, 'app="web"\ntier="a\\"b"')),
        ("ls /settings", (0, "color\nsize\n")),
        ("ls /login /login/deep/pass", (0, "/login/deep/pass\n\n/login:\ndeep\n")),
        ("cd /tmp; echo abc >a; mkdir d; touch .b; ls -l; ls -dn d; ls -Alh /tmp/a",
         (0, "total 8\n-rw-r--r--    1 root     root             4 Jan  1 00:00 a\n"
             "drwxr-xr-x    2 root     root          4096 Jan  1 00:00 d\n"
             "drwxr-xr-x    2 0        0             4096 Jan  1 00:00 d\n"
             "-rw-r--r--    1 root     root             4 Jan  1 00:00 /tmp/a\n")),
        ("cd /tmp; touch .b c; ls -a; ls -A", (0, ".\n..\n.b\nc\n.b\nc\n")),
        ("touch /tmp/a; mkdir /tmp/d; stat -c '%n %u:%g %a %A %s' /tmp/a /tmp/d; stat -c='%U' /tmp/a /tmp/n",
         (1, "/tmp/a 0:0 644 -rw-r--r-- 0\n/tmp/d 0:0 755 drwxr-xr-x 4096\n=root\n"
             "stat: can't stat '/tmp/n': No such file or directory\n")),
        ("dd if=/dev/zero of=/scratch/z bs=4 count=3 conv=fsync; wc -c /scratch/z",
         (0, "3+0 records in\n3+0 records out\n12 /scratch/z\n")),
        ("echo hi | dd of=/scratch/z conv=fsync; cat /scratch/z",
         (0, "0+1 records in\n0+1 records out\nhi\n")),
        ("dd if=/dev/null of=/settings/z bs=1 count=1",
         (1, "dd: can't open '/settings/z': Read-only file system\n")),
        ("hexdump -C /settings/size", (0, f"00000000  ff{' ' * 48}|.|\n00000001\n")),
        ("cat /settings/other", (1, "cat: can't open '/settings/other': No such file or directory\n")),
        ("cat /settings/other 2>/dev/null || echo no", (0, "no\n")),
        ('x=$(cat /settings/other 2>&1); echo "${x}!"',
         (0, "cat: can't open '/settings/other': No such file or directory!\n")),
        ("echo a >/settings/color", (1, "/bin/sh: can't create /settings/color: Read-only file system\n")),
        ("echo a >/scratch/b/c", (1, "/bin/sh: can't create /scratch/b/c: nonexistent directory\n")),
        ("mkdir -p /scratch/b/c && echo hi >/scratch/b/c/d && cat /scratch/b/c/d && ls /scratch",
         (0, "hi\nb\n")),
        ("touch /tmp/a; rm /tmp/a; test -f /tmp/a || echo gone; rm /tmp/a",
         (1, "gone\nrm: can't remove '/tmp/a': No such file or directory\n")),
        ("mkdir /tmp/d; rm /tmp/d; rm -rf /tmp/d /tmp/none; [ -d /tmp/d ]",
         (1, "rm: '/tmp/d' is a directory\n")),
        ("echo a >/tmp/a; cp /tmp/a /scratch; mv -v /tmp/a /scratch/b; cat /scratch/a /scratch/b; ls /tmp",
         (0, "'/tmp/a' -> '/scratch/b'\na\na\n")),
        ("mv /settings/color /tmp; cp /tmp/none /tmp/a; cp /settings/color /scratch/none/x",
         (1, "mv: can't rename '/settings/color': Read-only file system\n"
             "cp: can't copy '/tmp/none': No such file or directory\n"
             "cp: can't copy '/settings/color': No such file or directory\n")),
        ("touch /tmp/a /tmp/b; mv /tmp/a /tmp/b /tmp/c", (1, "mv: target '/tmp/c' is not a directory\n")),
        ("env | grep ^DB | sort", (0, "DB_SERVICE_HOST=10.0.0.7\n")),
        ("f=/scratch/n; for i in 1 2; do echo x >>$f; done; echo $(wc -l $f | awk {'print $1'})", (0, "2\n")),
        ("cat /all/color | grep -q red && echo red || echo other", (0, "other\n")),
        ("if true; then cat /all/labels | head -n 1; fi", (0, 'app="web"\n')),
        ("grep web /etc/hosts", (0, "10.1.0.5\tweb\n")),
    ],
)  # fmt: skip
def test_commands_read_and_write_files(script: str, expected: tuple[int, str]) -> None:
    assert run("sh", "-c", script) == expected


@pytest.mark.parametrize(
    "script",
    [
        "cat /etc/os-release", "ls /", "rm /etc/passwd", "sleep 1 | cat", "ls -l /etc", "env -i true",
        "cp /etc/passwd /tmp", "cp /settings/color /usr/share", "cp -r /settings /tmp",
    ],
)  # fmt: skip
def test_files_of_images_are_not_guessed(script: str) -> None:
    assert run("sh", "-c", script) is None


@pytest.mark.parametrize(
    "script", ["until nslookup web; do sleep 2; done", "while ! wget -q web; do sleep 1; done; echo there"]
)
def test_waiting_for_the_network_is_not_judged(script: str) -> None:
    """Init containers of charts and tutorials do it; they would wait forever."""
    assert run("sh", "-c", script) is None


def test_rights_are_those_of_the_user() -> None:
    user = SecurityContext(run_as_user=1000)
    denied = "cat: can't open '/settings/color': Permission denied\n"
    assert run("cat", "/settings/color", context=user) == (1, denied)
    assert run("cat", "/settings/color", context=SecurityContext(run_as_user=1000, fs_group=5)) == (0, "blue")
    assert run("sh", "-c", "id -u; id -g", context=user) == (0, "1000\n0\n")
    nameless = SecurityContext(run_as_user=1002, run_as_group=3, supplemental_groups=[7])
    assert run("id", context=nameless) == (0, "uid=1002 gid=3(sys) groups=3(sys),7(lp)\n")
    flags = ["--new_file_0660=/scratch/new", "--file_owner=/scratch/new", "--fs_type=/scratch"]
    outcome = run(
        "/agnhost", "mounttest", *flags, context=SecurityContext(run_as_user=1000, run_as_group=7, fs_group=5)
    )
    assert outcome == (
        0,
        'mount type of "/scratch": tmpfs\n'
        'content of file "/scratch/new": mount-tester new file\n\n'
        'owner UID of "/scratch/new": 1000\nowner GID of "/scratch/new": 5\n',
    )


def test_a_root_file_system_can_be_read_only() -> None:
    context = SecurityContext(read_only_root_filesystem=True)
    expected = (1, "/bin/sh: can't create /file: Read-only file system\n")
    assert run("sh", "-c", "echo a >/file", security_context=context) == expected
    assert run("sh", "-c", "echo a >/scratch/file", security_context=context) == (0, "")


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("--file_mode=/settings/color", 'mode of file "/settings/color": -r--------\n'),
        ("--file_mode=/scratch", 'mode of file "/scratch": dtrwxrwxrwx\n'),
        ("--file_perm=/login/deep/pass", 'perms of file "/login/deep/pass": -r--r-----\n'),
        ("--file_content=/none/x", None),
    ],
)
def test_mounttest_looks_at_files(flag: str, expected: str | None) -> None:
    outcome = run("/agnhost", "mounttest", flag)
    assert outcome == (None if expected is None else (0, expected))


def test_variables_come_from_the_cluster() -> None:
    env = [
        EnvVar(name="COLOR", value_from=_key("settings", "color")),
        EnvVar(name="NONE", value_from=_key("absent", "color")),
        EnvVar(name="IP", value_from=EnvVarSource(field_ref=FieldRef(field_path="status.podIP"))),
        EnvVar(name="TEXT", value="$(COLOR) at $(IP), $$(IP) and $(NONE)"),
        EnvVar(name="LIMIT", value_from=_resource("limits.memory", "1Mi")),
        EnvVar(name="REQUEST", value_from=_resource("requests.cpu", "1m")),
    ]
    source = EnvFrom(prefix="p_", secret_ref=KeyRef(name="login"))
    code, text = run("env", env=env, env_from=[source], resources=Resources(requests={"cpu": "1500u"})) or (
        1,
        "",
    )
    assert code == 0
    assert set(text.splitlines()) == {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "HOSTNAME=web",
        "DB_SERVICE_HOST=10.0.0.7", "p_password=xyz", "COLOR=blue", "IP=10.1.0.5",
        "TEXT=blue at 10.1.0.5, $(IP) and $(NONE)", "LIMIT=65536", "REQUEST=2",
    }  # fmt: skip
    assert run("printenv", "COLOR", env=env) == (0, "blue\n")
    assert run("printenv", "NONE", env=env) == (1, "")


def _key(name: str, key: str) -> EnvVarSource:
    return EnvVarSource(config_map_key_ref=KeyRef(name=name, key=key, optional=True))


def _resource(resource: str, divisor: str) -> EnvVarSource:
    return EnvVarSource(resource_field_ref=ResourceFieldRef(resource=resource, divisor=divisor))


def test_files_have_a_history() -> None:
    volume = Volume()
    one, other = Files([Mount("/data", volume)]), Files([Mount("/data", volume)], User(uid=5))
    one.write("/data/a", "first", 10.0)
    other.write("/data/b", "x", 15.0)
    one.remove("/data/a", 20.0)
    assert [other.find("/data/a", at) is not None for at in (5.0, 10.0, 19.0, 20.0)] == [
        False,
        True,
        True,
        False,
    ]
    with pytest.raises(FileError, match="No such file"):
        other.read("/data/a", 20.0)
    with pytest.raises(FileError, match="Permission denied"):
        other.write("/data/a", "", 12.0)
    one.forget()
    assert other.list("/data", 30.0) == ["b"]
    assert volume.replace({"c": File("new")}, 40.0)
    assert not volume.replace({"c": File("new")}, 50.0)
    assert (other.list("/data", 39.0), other.list("/data", 40.0)) == (["b"], ["c"])


def test_sub_paths_are_expanded() -> None:
    assert expand_sub_path("$(NAME)/x", {"NAME": "web"}) == "web/x"
    for text in ("/$(NAME)", "../$(NAME)", "$(OTHER)"):
        with pytest.raises(SubPathError):
            expand_sub_path(text, {"NAME": "web"})


def test_files_that_are_made_when_they_are_looked_for_take_room_and_give_it_back() -> None:
    calls, space = list[int](), Space(1_000_000)

    def read() -> dict[str, File]:
        calls.append(1)
        return {"etc/hosts": File("127.0.0.1\tlocalhost\n")}

    files = Files(own=read, started=5.0, space=space)
    assert (calls, space.used) == ([], 0)
    assert files.read("/etc/hosts", 7.0) == files.read("/etc/hosts", 8.0) == "127.0.0.1\tlocalhost\n"
    assert files.changed_at("/etc/hosts", 8.0) == 5.0
    assert calls == [1]
    assert space.used > 0
    files.root.close()
    assert space.used == 0
