"""agnhost, the program that Kubernetes' own tests run in containers: those of its commands that need no
network, and its webhooks."""

from __future__ import annotations

import random
import re
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from mooring.sandbox.network.messages import Query, Reply
from mooring.sandbox.programs import consumer, guestbook, netexec, nettest, port_forward_tester
from mooring.sandbox.programs.connecting import connect
from mooring.sandbox.programs.conversion import convert_resources
from mooring.sandbox.programs.errors import ForeverError, UnknownProgramError
from mooring.sandbox.programs.file import NOT_THERE, FileError
from mooring.sandbox.programs.listeners import UNKNOWN, Listener, Process, text
from mooring.sandbox.programs.netexec import port_number
from mooring.sandbox.programs.resolving import read_resolver
from mooring.sandbox.programs.servers import AnswerPost, Server
from mooring.sandbox.programs.web_servers import FileServer, serve_host_name, serve_variables
from mooring.sandbox.programs.webhooks import AdmissionWebhooks

if TYPE_CHECKING:
    from mooring.sandbox.programs.shell import Shell
    from mooring.sandbox.programs.specs import ContainerSpec

NAMES: Final = frozenset(("agnhost", "agnhost-2"))
SERVERS: Final = frozenset(
    ("netexec", "serve-hostname", "test-webserver", "porter", "nettest", "liveness",
     "grpc-health-checking", "guestbook", "no-snat-test", "no-snat-test-proxy", "port-forward-tester",
     "resource-consumer-controller", "fake-gitserver", "fake-registry-server", "audit-proxy",
     "inclusterclient")
)  # fmt: skip
"""Commands that run until they are stopped."""

WEBHOOKS: Final = frozenset(("webhook", "crd-conversion-webhook"))
"""Commands whose answers are known."""

_RESOLVER: Final = {"dns-suffix": "searches", "dns-server-list": "servers"}
"""Commands that print a part of /etc/resolv.conf."""

PORTS: Final = {"test-webserver": 80, "liveness": 8080, "serve-hostname": 9376, "grpc-health-checking": 5000}
"""The only ports of servers that are started without flags."""

LIVENESS_SECONDS: Final = 10.0
"""For how long `liveness` answers that it is healthy."""

NEW_FILE: Final = "mount-tester new file\n"
_LOOP: Final = 2.0  # seconds from one look at a file to the next
_SWITCHES: Final = frozenset(
    ("alsologtostderr", "logtostderr", "json-response", "http", "tcp", "udp", "close")
)
_FLAG: Final = re.compile(r"--?([A-Za-z0-9_-]+)(?:=(.*))?", re.DOTALL)
_DURATION: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(ms|s|m|h)")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def command_of(spec: ContainerSpec) -> str:
    """Return the command of agnhost that a container runs; "" if it runs another program."""
    words = [*spec.command, *spec.args]
    if spec.command:
        name, *words = words
        return words[0] if words and name.rpartition("/")[2] in NAMES else ""
    is_agnhost = spec.image.partition("@")[0].rpartition("/")[2].partition(":")[0] in NAMES
    return (words or ["pause"])[0] if is_agnhost else ""


def port_of(command: str, words: list[str]) -> int | None:
    """Return the only port at which a server listens; None if there may be others."""
    try:
        flags = _flags(words)
    except UnknownProgramError:
        return None
    if not flags:
        return PORTS.get(command)
    port = flags.get("port", "")
    return int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else None


def run(shell: Shell, words: list[str]) -> int:
    """Run a command of agnhost; the first word is the path of the program."""
    name = words[1] if len(words) > 1 else ""
    if name == "pause":
        shell.print("Paused\nSignals registered\n")
        raise ForeverError
    if name in SERVERS:
        _listen(shell, name, words[2:])
        raise ForeverError
    if name == "entrypoint-tester":
        shell.print(f"[{' '.join(words)}]\n")
        return 0
    if name == "etc-hosts" and len(words) == 2:
        shell.print(shell.files.read("/etc/hosts", shell.now) + "\n")
        return 0
    if name in _RESOLVER and len(words) == 2:
        shell.print(",".join(getattr(read_resolver(shell.files, shell.now), _RESOLVER[name])))
        return 0
    if name == "connect":
        targets = [word for word in words[2:] if not word.startswith("-")]
        if len(targets) != 1:
            raise UnknownProgramError("agnhost connect")
        return connect(shell, _flags([word for word in words[2:] if word.startswith("-")]), targets[0])
    command = _COMMANDS.get(name)
    if command is None:
        raise UnknownProgramError(f"agnhost {name}")
    return command(shell, _flags(words[2:]))


def _flags(words: list[str]) -> dict[str, str]:
    flags: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        match = _FLAG.fullmatch(word)
        if match is None:
            raise UnknownProgramError(f"agnhost: {word}")
        name, value = match.groups()
        if value is None:
            value = "true" if name in _SWITCHES else next(rest, "")
        flags[_SHORT.get(name, name)] = value
    return flags


def _listen(shell: Shell, name: str, words: list[str]) -> None:
    """Listen in the network of the cluster; a server that is not known does at all ports."""
    try:
        _LISTENERS[name](shell, _flags(words))
    except (KeyError, UnknownProgramError):
        shell.listeners = [*UNKNOWN]


def _listen_porter(shell: Shell, flags: dict[str, str]) -> None:
    shell.listeners += serve_variables(shell.variables, as_json=flags.get("json-response") == "true")


def _listen_host_name(shell: Shell, flags: dict[str, str]) -> None:
    shell.listeners += serve_host_name(flags, port_number(flags.get("port", "9376")))


def _listen_files(shell: Shell, flags: dict[str, str]) -> None:
    shell.listeners.append(Listener(port_number(flags.get("port", "80")), FileServer("/", lists=True)))


def _listen_liveness(shell: Shell, flags: dict[str, str]) -> None:
    shell.listeners.append(Listener(PORTS["liveness"], _answer_liveness))


def _listen_nettest(shell: Shell, flags: dict[str, str]) -> None:
    shell.listeners.append(Listener(port_number(flags.get("port", "8080")), nettest.answer))


def _answer_liveness(query: Query, process: Process) -> Reply:
    age = process.now - process.started
    if query.path == "/healthz":
        return text("ok") if age <= LIVENESS_SECONDS else text(f"error: {age}", 500)
    return text(f"{age}")


# ---- mounttest: looks at files, and writes some


def _mounttest(shell: Shell, flags: dict[str, str]) -> int:
    if set(flags) - {*_LOOKS, *_NEW, "file_content_in_loop", "retry_time", "break_on_expected_content"}:
        raise UnknownProgramError("agnhost mounttest")
    ok = True
    for name in ("fs_type", *_NEW, "file_mode", "file_perm", "file_owner", "file_content"):
        path = flags.get(name, "")
        if path and name in _NEW:
            ok &= _write_new(shell, path, _NEW[name])
        elif path:
            ok &= _LOOKS[name](shell, path)
    if path := flags.get("file_content_in_loop", ""):
        seconds = flags.get("retry_time", "180")
        stop = flags.get("break_on_expected_content", "true")
        if not (seconds.isascii() and seconds.isdigit() and len(seconds) <= 6) or stop not in _BOOLEANS:
            raise UnknownProgramError("agnhost mounttest")
        ok &= _watch_content(shell, path, float(seconds), _BOOLEANS[stop])
    return 0 if ok else 1


def _print_fs_type(shell: Shell, path: str) -> bool:
    if shell.files.find(path, shell.now) is None:
        shell.print(f'error from statfs("{path}"): {NOT_THERE.lower()}\n')
        return False
    shell.print(f'mount type of "{path}": {shell.files.fs_type(path, shell.now)}\n')
    return True


def _print_mode(shell: Shell, path: str) -> bool:
    return _print_stat(shell, path, lambda mode: f'mode of file "{path}": {_go_mode(mode)}\n')


def _print_permissions(shell: Shell, path: str) -> bool:
    return _print_stat(shell, path, lambda mode: f'perms of file "{path}": {_go_mode(mode & 0o777)}\n')


def _print_stat(shell: Shell, path: str, text: Callable[[int], str]) -> bool:
    file = shell.files.find(path, shell.now)
    if file is None:
        shell.print(f'error from Stat("{path}"): stat {path}: {NOT_THERE.lower()}\n')
        return False
    shell.print(text(file.mode))
    return True


def _print_owner(shell: Shell, path: str) -> bool:
    file = shell.files.find(path, shell.now)
    if file is None:
        shell.print(f'error from stat("{path}"): {NOT_THERE.lower()}\n')
        return False
    shell.print(f'owner UID of "{path}": {file.uid}\nowner GID of "{path}": {file.gid}\n')
    return True


def _print_content(shell: Shell, path: str) -> bool:
    try:
        content = shell.files.read(path, shell.now)
    except FileError as error:
        shell.print(f'error reading file content for "{path}": open {path}: {str(error).lower()}\n')
        return False
    shell.print(f'content of file "{path}": {content}\n')
    return True


def _write_new(shell: Shell, path: str, mode: int) -> bool:
    try:
        shell.files.write(path, NEW_FILE, shell.now, mode)
    except FileError as error:
        shell.print(f'error writing new file "{path}": open {path}: {str(error).lower()}\n')
        return False
    return _print_content(shell, path)


def _watch_content(shell: Shell, path: str, seconds: float, stop: bool) -> bool:
    end, read = shell.seconds + seconds, True
    while shell.seconds < end:
        shell.step()
        try:
            content = shell.files.read(path, shell.now)
            read = True
            shell.print(f'content of file "{path}": {content}\n')
            if stop and content == NEW_FILE:
                break
            if stop:
                shell.print(f"Unexpected content. Expected: {NEW_FILE}. Retrying\n")
        except FileError as error:
            read = False
            shell.print(f"Error reading file {path}: open {path}: {str(error).lower()}, retrying\n")
        shell.seconds += _LOOP
    return read


def _go_mode(mode: int) -> str:
    """Return a mode as Go prints it."""
    kinds = ((stat.S_IFDIR, "d"), (stat.S_ISUID, "u"), (stat.S_ISGID, "g"), (stat.S_ISVTX, "t"))
    prefix = "".join(letter for bit, letter in kinds if mode & bit == bit)
    bits = "".join("rwxrwxrwx"[at] if mode & 1 << (8 - at) else "-" for at in range(9))
    return (prefix or "-") + bits


_LOOKS: Final[dict[str, Callable[[Shell, str], bool]]] = {
    "fs_type": _print_fs_type,
    "file_mode": _print_mode,
    "file_perm": _print_permissions,
    "file_owner": _print_owner,
    "file_content": _print_content,
}
_NEW: Final = {f"new_file_0{mode:o}": mode for mode in (0o644, 0o666, 0o660, 0o777)}
_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}


# ---- logs-generator: prints lines like those of an API server


def _logs_generator(shell: Shell, flags: dict[str, str]) -> int:
    lines = flags.get("log-lines-total", "0")
    duration = _DURATION.fullmatch(flags.get("run-duration", ""))
    if set(flags) - {"log-lines-total", "run-duration"} or duration is None or shell.started is None:
        raise UnknownProgramError("agnhost logs-generator")
    if not (lines.isascii() and lines.isdigit() and 0 < int(lines[:6]) <= 2000):
        raise UnknownProgramError("agnhost logs-generator")
    count = int(lines[:6])
    delay = float(duration.group(1)) * _UNITS[duration.group(2)] / count
    chance = random.Random(shell.variables.get("HOSTNAME") or "")
    for line in range(count):
        shell.step()
        at = datetime.fromtimestamp(shell.now, UTC).strftime("%m%d %H:%M:%S.%f")
        method = chance.choice(("GET", "POST", "PUT"))
        namespace = chance.choice(("kube-system", "default", "ns"))
        pod = "".join(chance.choices("bcdfghjklmnpqrstvwxz2456789", k=chance.randint(3, 4)))
        url = f"/api/v1/namespaces/{namespace}/pods/{pod}"
        shell.print(f"I{at}       1 logs_generator.go:76] {line} {method} {url} {chance.randint(200, 599)}\n")
        shell.seconds += delay
    return 0


# ---- webhooks: serve over HTTPS


def _webhook(shell: Shell, flags: dict[str, str]) -> int:
    return _serve(shell, flags, AdmissionWebhooks(flags.get("sidecar-image", "")))


def _conversion_webhook(shell: Shell, flags: dict[str, str]) -> int:
    return _serve(shell, flags, convert_resources)


def _serve(shell: Shell, flags: dict[str, str], answer: AnswerPost) -> int:
    port = flags.get("port", "443")
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        raise UnknownProgramError("agnhost: --port")
    path = flags.get("tls-cert-file", "")
    try:
        certificate = shell.files.read(path, shell.now)
        path = flags.get("tls-private-key-file", "")
        key = shell.files.read(path, shell.now)
    except FileError as error:
        shell.print(f"open {path}: {str(error).lower()}\n")
        return 255
    shell.listeners = [*UNKNOWN]
    shell.server = Server(int(port), certificate, key, answer)
    raise ForeverError


_SHORT: Final = {"t": "log-lines-total", "d": "run-duration"}
_LISTENERS: Final[dict[str, Callable[[Shell, dict[str, str]], object]]] = {
    "netexec": netexec.listen,
    "porter": _listen_porter,
    "serve-hostname": _listen_host_name,
    "test-webserver": _listen_files,
    "liveness": _listen_liveness,
    "guestbook": guestbook.run,
    "nettest": _listen_nettest,
    "port-forward-tester": port_forward_tester.listen,
    "resource-consumer-controller": consumer.listen,
}
_COMMANDS: Final[dict[str, Callable[[Shell, dict[str, str]], int]]] = {
    "mounttest": _mounttest,
    "logs-generator": _logs_generator,
    "webhook": _webhook,
    "crd-conversion-webhook": _conversion_webhook,
}
