"""What a container does: decided by its command line, or by its image where that is a well-known server."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from mooring.sandbox.programs.command_lines import command_line
from mooring.sandbox.programs.environment import read_environment, substitute
from mooring.sandbox.programs.errors import ExitError, ForeverError, UnknownProgramError
from mooring.sandbox.programs.file import FileError
from mooring.sandbox.programs.files import Files
from mooring.sandbox.programs.images import PLAIN_IMAGES, find_image, image_name, short_names
from mooring.sandbox.programs.listeners import Listener
from mooring.sandbox.programs.servers import Server
from mooring.sandbox.programs.shell import Shell, show_bytes
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import ContainerSpec, Handler
from mooring.sandbox.programs.stdin import Stdin
from mooring.sandbox.programs.web_servers import IMAGES, listeners_of_image
from mooring.sandbox.programs.wire import Wire
from mooring.sandbox.programs.work import Work

SERVERS: Final = IMAGES | {"rabbitmq", "haproxy", "traefik", "registry", "grafana", "prometheus"}
"""Images that serve until they are stopped, see `images.short_names`."""

_ROOT_SERVERS: Final = frozenset(("nginx", "httpd", "redis", "postgres", "mysql", "mariadb", "mongo"))
"""Official images that start as root."""

MOST_MESSAGE: Final = 4096
MOST_ANSWER: Final = 512 * 1024  # characters that a command prints to the client that executes it
START_WORK: Final = 200  # of any run


class Stop(NamedTuple):
    """How a program ends that handles the signal to stop: after how many seconds, with which code."""

    seconds: float
    exit_code: int


class Outcome(NamedTuple):
    """One run of a container, or of a command in one. `run_time` is None where it does not end by itself;
    `output` has the seconds from the start to each text, `errors` the numbers of those that are error output,
    `server` what it serves meanwhile, and `stop` how it ends if it handles the signal to stop."""

    run_time: float | None
    exit_code: int = 0
    output: tuple[tuple[float, str], ...] = ()
    message: str = ""
    errors: frozenset[int] = frozenset()
    elapsed: float = 0.0
    """The seconds until it ends, or has printed all that it prints."""
    server: Server | None = None
    stop: Stop | None = None
    listeners: tuple[Listener, ...] = ()
    """Where it listens meanwhile, in the network of the cluster."""
    resumes_at: float | None = None
    """When it asks the network for what is not known yet: from then on it may go otherwise."""


def run_program(
    spec: ContainerSpec,
    sources: Sources,
    files: Files,
    started: float | None = None,
    work: Work | None = None,
    *,
    is_hook: bool = False,
    stdin: Stdin | None = None,
    wire: Wire | None = None,
) -> Outcome | None:
    """Return what the container does, or None where that is not known. It reads and writes `files`. `started`
    is when the run began, `work` what it may cost."""
    server = next((name for name in short_names(spec.image) if name in SERVERS), "")
    if server and not spec.command and (not spec.args or spec.args[0].startswith("-")):
        mounts = (one.mount_path for one in spec.volume_mounts)
        return Outcome(None, listeners=listeners_of_image(server, mounts, spec.args))
    words = command_line(spec)
    if not words:
        return None
    files.work = work or Work()
    files.work.left -= START_WORK
    variables = read_environment(spec, sources)
    shell = Shell(
        variables,
        files,
        started,
        image=find_image(spec.image),
        knows_image=image_name(spec.image) in PLAIN_IMAGES,
        is_hook=is_hook,
    )
    shell.stdin = stdin
    shell.wire = wire
    outcome = _run(shell, lambda: _run_main(shell, words))
    if outcome is None:
        return None
    message = _read_message(spec, files, (started or 0.0) + outcome.elapsed)
    if not message and outcome.exit_code and spec.termination_message_policy == "FallbackToLogsOnError":
        message = "".join(text for _, text in outcome.output)[-2048:]
    output = tuple((at, show_bytes(text)) for at, text in outcome.output)
    stop = _stop(shell) if outcome.run_time is None else None
    return outcome._replace(output=output, message=show_bytes(message[:MOST_MESSAGE]), stop=stop)


def _run_main(shell: Shell, words: list[str]) -> int:
    shell.work.spend(sum(map(len, words)) // 32)
    return shell.command([substitute(word, shell.variables) for word in words])


def run_command(
    words: Sequence[str],
    spec: ContainerSpec,
    sources: Sources,
    files: Files,
    now: float,
    stdin: str | None = None,
    wire: Wire | None = None,
    work: Work | None = None,
) -> Outcome | None:
    """Return what a command does that is executed in a container, or None where that is not known. The
    variables that its image sets are missing."""
    shell = open_shell(spec, sources, files)
    shell.wire = wire
    shell.begin(now, work)
    shell.input = stdin
    return _run_executed(shell, lambda: shell.command([*words]))


def open_shell(spec: ContainerSpec, sources: Sources, files: Files) -> Shell:
    """Return a shell in a container, for `run_line`. The variables that its image sets are missing."""
    shell = Shell(read_environment(spec, sources), files, image=find_image(spec.image), knows_image=True)
    shell.most_output = MOST_ANSWER
    return shell


def run_line(shell: Shell, line: str, now: float) -> Outcome | None:
    """Return what a line does that is entered in a shell, or None where that is not known. Raises ExitError
    where it ends the shell."""
    shell.files = shell.files.fork()  # what an unknown line has written is undone
    shell.begin(now)
    return _run_executed(shell, lambda: shell.script(line), ends=True)


def _run_executed(shell: Shell, run: Callable[[], int], *, ends: bool = False) -> Outcome | None:
    """Return the outcome of a command that a client executes; None also where that is too much work."""
    outcome = _run(shell, run, ends=ends)
    if outcome is not None and outcome.run_time is None and shell.work.left < 0:
        shell.files.forget()
        return None
    return outcome


def _run(shell: Shell, run: Callable[[], int], *, ends: bool = False) -> Outcome | None:
    run_time: float | None
    folder = shell.files.folder
    try:
        shell.work.spend(_size(shell.variables) // 32)
        code = run()
        run_time = shell.seconds
    except ExitError as ended:
        if ends:
            raise
        code, run_time = ended.code, shell.seconds
    except ForeverError:
        code, run_time = 0, None
    except (UnknownProgramError, RecursionError):
        shell.files.forget()
        return None
    finally:
        if not ends:
            shell.files.folder = folder
    order = sorted(range(len(shell.output)), key=lambda i: shell.output[i][0])  # some is of the background
    return Outcome(
        run_time,
        code,
        tuple(shell.output[i] for i in order),
        errors=frozenset(place for place, i in enumerate(order) if i in shell.errors),
        elapsed=shell.seconds,
        server=shell.server if run_time is None else None,
        listeners=tuple(shell.listeners) if run_time is None else (),
        resumes_at=shell.resumes_at if run_time is None and shell.resumes_at < math.inf else None,
    )


def _size(variables: Mapping[str, str | None]) -> int:
    """Return the characters of variables, of large values a part: shells keep what lines assign."""
    return sum(len(name) + len(value or "") // 2 for name, value in variables.items())


def _stop(shell: Shell) -> Stop | None:
    """Return how a program that runs forever ends by the signal to stop, if its handler ends it."""
    if not shell.term_handler:
        return None
    began = shell.seconds
    try:
        shell.terminate()
    except ExitError as ended:
        return Stop(shell.seconds - began, ended.code)
    except (ForeverError, UnknownProgramError, RecursionError):
        pass
    return None


def run_hook(
    spec: ContainerSpec,
    hook: Handler | None,
    sources: Sources | None,
    files: Files,
    at: float,
    work: Work,
    wire: Wire | None = None,
) -> Outcome | None:
    """Return what the command of a hook does in a container, or None where that is not known."""
    if hook is None or hook.exec is None or sources is None or work.left < 0:
        return None
    command = msgspec.structs.replace(spec, command=hook.exec.command, args=[], termination_message_path="")
    return run_program(command, sources, files.fork(), at, work, is_hook=True, wire=wire)


def _read_message(spec: ContainerSpec, files: Files, now: float) -> str:
    files.work = Work()
    try:
        return files.read(spec.termination_message_path, now)
    except (FileError, UnknownProgramError):
        return ""


def runs_as_root(image: str) -> bool:
    """Whether an image is known to start as root, unless a container says otherwise."""
    name = image_name(image)
    official = image.partition("@")[0].removeprefix("docker.io/").removeprefix("library/")
    return name in PLAIN_IMAGES or (name in _ROOT_SERVERS and "/" not in official)
