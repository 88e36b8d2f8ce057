"""`agnhost netexec`: answers about itself by HTTP and UDP, asks other servers, runs commands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from mooring.api.times import format_time
from mooring.sandbox.network.messages import LARGEST, UDP, NetworkError, Query, Reply
from mooring.sandbox.network.network import dial_error
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.http_text import header_name
from mooring.sandbox.programs.listeners import Listener, Process, json_text, text
from mooring.sandbox.programs.resolving import find_addresses

if TYPE_CHECKING:
    from mooring.sandbox.programs.shell import Shell

FLAGS: Final = frozenset(
    ("http-port", "udp-port", "sctp-port", "tls-cert-file", "tls-private-key-file", "http-override",
     "udp-listen-addresses", "delay-shutdown")
)  # fmt: skip
_MOST_TRIES: Final = 100  # of one request to dial
_TIMEOUT: Final = 5.0  # seconds
_DURATION: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(ms|s|m|h)")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def listen(shell: Shell, flags: dict[str, str]) -> None:
    """Listen at the ports of a command line. Raises UnknownProgramError."""
    if set(flags) - FLAGS:
        raise UnknownProgramError("agnhost netexec")
    http_port = port_number(flags.get("http-port", "8080"))
    server = Netexec(http_port, flags.get("http-override", ""))
    shell.listeners.append(Listener(http_port, server, is_secure="tls-cert-file" in flags))
    if flags.get("udp-port") != "-1":
        udp_port = port_number(flags.get("udp-port", "8081"))
        shell.listeners.append(Listener(udp_port, Datagrams(udp_port), UDP))
    if delay := seconds_of(f"{flags.get('delay-shutdown', '0')}s"):
        shell.term_handler = f"sleep {delay:g}; exit 0"


def port_number(word: str) -> int:
    """Raises UnknownProgramError."""
    if not (word.isascii() and word.isdecimal() and 0 < int(word[:6]) < 65536):
        raise UnknownProgramError(f"port {word}")
    return int(word)


def seconds_of(word: str) -> float | None:
    match = _DURATION.fullmatch(word)
    return float(match.group(1)) * _UNITS[match.group(2)] if match else None


class Datagrams(msgspec.Struct, frozen=True):
    """Answers the words that the server knows by UDP."""

    port: int

    def __call__(self, query: Query, process: Process) -> Reply:
        said = query.body.decode(errors="surrogateescape").strip().lower()
        if said.startswith("echo "):
            return text(said.removeprefix("echo "))
        answers = {"hostname": process.name, "clientip": query.peer, "serverport": str(self.port)}
        return text(answers.get(said, ""))


class Netexec(msgspec.Struct, frozen=True):
    """Answers by HTTP. With `override`, every request is answered as if it were for that path."""

    port: int
    override: str = ""

    def __call__(self, query: Query, process: Process) -> Reply:
        if self.override:
            query = query._replace(method="GET", target=f"/{self.override.lstrip('/')}", body=b"")
        answer = _PATHS.get(query.path)
        if query.path == "/serverport":
            return self._log(query, process, text(str(self.port)))
        return self._log(query, process, (answer or _now)(query, process))

    def _log(self, query: Query, process: Process, reply: Reply) -> Reply:
        shown = {"/echo": ("msg", "code"), "/shell": ("cmd",), "/header": ("key",)}.get(query.path, ())
        params = "&".join(f"{name}={query.param(name)}" for name in shown)
        path = query.path if query.path in (*_PATHS, "/serverport") else "/"
        process.log(f"GET {path}{'?' if params else ''}{params}")
        return reply


def _now(query: Query, process: Process) -> Reply:
    return text(f"NOW: {format_time(process.now, micro=True)}")


def _echo(query: Query, process: Process) -> Reply:
    code = query.param("code")
    if code and not (code.isascii() and code.isdecimal() and 200 <= int(code[:4]) <= 999):
        return text(f"argument 'code' must be an integer or empty, got \"{code}\"\n")
    return text(query.param("msg"), int(code or 200))


def _header(query: Query, process: Process) -> Reply:
    key = query.param("key")
    if key:
        return text(query.headers.get(key.lower(), ""))
    headers = {header_name(name): [value] for name, value in query.headers.items() if name != "host"}
    return json_text(msgspec.json.encode(headers))


def _exit(query: Query, process: Process) -> Reply:
    code, wait, timeout = query.param("code") or "0", query.param("wait"), query.param("timeout")
    for name, value in (("timeout", timeout), ("wait", wait)):
        if value and value != "0" and seconds_of(value) is None:
            return text(f"argument '{name}' must be a valid golang duration or empty, got \"{value}\"\n")
    if not (code.isascii() and code.isdecimal() and int(code[:4]) < 128):
        return text(f"argument 'code' must be an integer [0-127] or empty, got \"{code}\"\n")
    process.exit = seconds_of(wait) or 0.0, int(code)
    return Reply(0) if not seconds_of(timeout) else text("")


def _shutdown(query: Query, process: Process) -> Reply:
    process.exit = 0.0, 0
    return Reply(0)


def _healthy(query: Query, process: Process) -> Reply:
    return text("")


def _ready(query: Query, process: Process) -> Reply:
    return text("shutting down", 503) if process.is_stopping else text("ok")


def _redirect(query: Query, process: Process) -> Reply:
    code = query.param("code") or "302"
    if not (code.isascii() and code.isdecimal() and 300 <= int(code[:4]) <= 399):
        return text(f"argument 'code' must be an integer or empty, got \"{code}\"\n")
    location = query.param("location").replace("\r", "").replace("\n", "")
    body = f'<a href="{location}">Found</a>.\n\n'.encode(errors="surrogateescape")
    return Reply(int(code), body, {"content-type": "text/html; charset=utf-8", "location": location})


def _shell(query: Query, process: Process) -> Reply:
    outcome = process.run(query.param("shellCommand") or query.param("cmd"))
    if outcome is None or outcome.run_time is None:
        return json_text(msgspec.json.encode({"error": "the command is not known in a sandbox cluster"}))
    output = "".join(text for _, text in outcome.output)
    result = {"output": output} if output else {}
    if outcome.exit_code:
        result["error"] = f"exit status {outcome.exit_code}"
    return json_text(msgspec.json.encode(result))


def _dial(query: Query, process: Process) -> Reply:
    host, port, protocol = query.param("host"), query.param("port"), query.param("protocol").lower() or "http"
    tries = query.param("tries") or "1"
    if not (tries.isascii() and tries.isdecimal() and len(tries) < 6):
        return text(f"tries parameter is invalid. {tries}\n", 400)
    if not query.param("request"):
        return text("request parameter not specified. <nil>\n", 400)
    if protocol not in ("http", "udp"):
        return text(f"unsupported protocol. {protocol}\n", 400)
    try:
        address = find_addresses(process.client, process.files, process.now, host)[0]
        number = port_number(port)
    except (NetworkError, UnknownProgramError):
        return text(f"host and/or port param are invalid. lookup {host}: no such host\n", 400)
    responses: list[str] = []
    errors: list[str] = []
    for _ in range(min(int(tries), _MOST_TRIES)):
        try:
            responses.append(dial(process, address, number, query.param("request"), protocol))
        except NetworkError as error:
            errors.append(dial_error(error, address, number, "udp" if protocol == "udp" else "tcp"))
        if sum(map(len, responses)) > LARGEST:
            break
    output = {name: values for name, values in (("responses", responses), ("errors", errors)) if values}
    return json_text(msgspec.json.encode(output))


def dial(process: Process, address: str, port: int, request: str, protocol: str = "http") -> str:
    """Ask another server. Raises NetworkError."""
    if protocol == "udp":
        query = Query(body=request.encode(errors="surrogateescape"))
        return process.client.ask(address, port, query, UDP).body.decode(errors="replace")
    headers = {"host": f"{address}:{port}", "user-agent": "Go-http-client/1.1"}
    query = Query("GET", f"/{request.lstrip('/')}", headers)
    return process.client.ask(address, port, query).body.decode(errors="replace")


def _client_address(query: Query, process: Process) -> Reply:
    return text(query.peer)


def _host_name(query: Query, process: Process) -> Reply:
    return text(process.name)


_PATHS: Final[dict[str, Callable[[Query, Process], Reply]]] = {
    "/clientip": _client_address,
    "/header": _header,
    "/dial": _dial,
    "/echo": _echo,
    "/exit": _exit,
    "/healthz": _healthy,
    "/readyz": _ready,
    "/hostname": _host_name,
    "/hostName": _host_name,
    "/redirect": _redirect,
    "/shell": _shell,
    "/shutdown": _shutdown,
}
