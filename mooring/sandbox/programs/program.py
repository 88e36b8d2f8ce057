"""What a container does: decided by its command line, or by its image where that is a well-known server."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from mooring.sandbox.programs.environment import read_environment, substitute
from mooring.sandbox.programs.errors import ExitError, ForeverError, UnknownProgramError
from mooring.sandbox.programs.files import FileError, Files
from mooring.sandbox.programs.shell import Shell, show_bytes
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import ContainerSpec
from mooring.sandbox.programs.work import Work

SERVERS: Final = frozenset(
    ("pause", "nginx", "httpd", "redis", "valkey", "memcached", "postgres", "mysql", "mariadb", "mongo",
     "rabbitmq", "haproxy", "traefik", "caddy", "registry", "grafana", "prometheus", "etcd")
)  # fmt: skip
"""Images that serve until they are stopped, by the last part of their names."""

PLAIN_IMAGES: Final = frozenset(("busybox", "alpine", "agnhost", "debian", "ubuntu"))
"""Images that set no variables but PATH."""

_ROOT_SERVERS: Final = frozenset(("nginx", "httpd", "redis", "postgres", "mysql", "mariadb", "mongo"))
"""Official images that start as root."""

MISSING_TAGS: Final = frozenset(("404", "nonexistent", "non-existent", "does-not-exist"))
MOST_MESSAGE: Final = 4096
START_WORK: Final = 200  # of any run


class Outcome(NamedTuple):
    """One run of a container. `run_time` is None where it does not end by itself; `output` has the seconds
    from the start to each text."""

    run_time: float | None
    exit_code: int = 0
    output: tuple[tuple[float, str], ...] = ()
    message: str = ""


def run_program(
    spec: ContainerSpec,
    sources: Sources,
    files: Files,
    started: float | None = None,
    work: Work | None = None,
) -> Outcome | None:
    """Return what the container does, or None where that is not known. It reads and writes `files`. `started`
    is when the run began, `work` what it may cost."""
    words, image = [*spec.command, *spec.args], image_name(spec.image)
    if image == "agnhost" and not spec.command:
        words = ["/agnhost", *(spec.args or ["pause"])]
    if not words:
        return Outcome(None) if image in SERVERS else None
    files.work = work or Work()
    files.work.left -= START_WORK
    variables = read_environment(spec, sources)
    shell = Shell(variables, files, started, knows_image=image in PLAIN_IMAGES)
    run_time: float | None
    try:
        files.work.spend(sum(map(len, variables)) // 32 + sum(map(len, words)) // 32)
        code = shell.command([substitute(word, variables) for word in words])
        run_time = shell.seconds
    except ExitError as ended:
        code, run_time = ended.code, shell.seconds
    except ForeverError:
        code, run_time = 0, None
    except (UnknownProgramError, RecursionError):
        files.forget()
        return None
    output = tuple(shell.output)
    message = _read_message(spec, files, shell.now)
    if not message and code and spec.termination_message_policy == "FallbackToLogsOnError":
        message = "".join(text for _, text in output)[-2048:]
    return Outcome(run_time, code, output, show_bytes(message[:MOST_MESSAGE]))


def _read_message(spec: ContainerSpec, files: Files, now: float) -> str:
    files.work = Work()
    try:
        return files.read(spec.termination_message_path, now)
    except (FileError, UnknownProgramError):
        return ""


def image_name(image: str) -> str:
    """Return the last part of an image's name, without tag and digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def runs_as_root(image: str) -> bool:
    """Whether an image is known to start as root, unless a container says otherwise."""
    name = image_name(image)
    official = image.partition("@")[0].removeprefix("docker.io/").removeprefix("library/")
    return name in PLAIN_IMAGES or (name in _ROOT_SERVERS and "/" not in official)


def is_missing(image: str, patterns: Collection[str] = ()) -> bool:
    """Whether pulling the image fails: by a shell pattern, by its tag, or because its registry begins with
    "invalid"."""
    name = image.partition("@")[0]
    return (
        name.rpartition("/")[2].partition(":")[2] in MISSING_TAGS
        or name.startswith("invalid")
        or any(fnmatchcase(image, pattern) for pattern in patterns)
    )
