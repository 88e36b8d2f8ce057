"""Commands that need the network of the cluster, and servers that listen there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mooring.sandbox.programs.commands.arguments import split_options
from mooring.sandbox.programs.errors import ForeverError, UnknownProgramError
from mooring.sandbox.programs.listeners import ANY_PORT, Listener
from mooring.sandbox.programs.lookups import dig, getent, host, nslookup
from mooring.sandbox.programs.web_clients import curl, nc, wget
from mooring.sandbox.programs.web_servers import FileServer, listeners_of_image

if TYPE_CHECKING:
    from mooring.sandbox.programs.commands.arguments import Command
    from mooring.sandbox.programs.shell import Shell

_PYTHON_SERVER: Final = re.compile(r"(?:-u )?-m http\.server(?: (\d{1,5}))?(?: (?:-d|--directory)[ =](\S+))?")
_BUSYBOX_SERVER: Final = re.compile(r"-f(?: -v)?(?: -p (\d{1,5}))?(?: -h (\S+))?")

_SOCKET: Final = "{}{:<6} {:<6} {:<6} {:>20} {:>17}\n"
_CONDITION: Final = re.compile(r"(?:sport (?:=|eq) :(\d{1,5}))?")


def _serve_image(name: str, shell: Shell) -> int:
    """Run the main program of an image."""
    shell.listeners += listeners_of_image(name, (mount.path for mount in shell.files.mounts))
    raise ForeverError


def _nginx(shell: Shell, words: list[str]) -> int:
    if [word.rstrip(";") for word in words] not in ([], ["-g", "daemon off"]):
        raise UnknownProgramError("nginx")
    return _serve_image("nginx", shell)


def _httpd(shell: Shell, words: list[str]) -> int:
    if words in ([], ["-DFOREGROUND"]):
        return _serve_image("httpd", shell)
    return _serve_files(shell, _BUSYBOX_SERVER, words, 80)


def _python(shell: Shell, words: list[str]) -> int:
    return _serve_files(shell, _PYTHON_SERVER, words, 8000)


def _serve_files(shell: Shell, pattern: re.Pattern[str], words: list[str], port: int) -> int:
    match = pattern.fullmatch(" ".join(words))
    if match is None:
        raise UnknownProgramError("server")
    folder = match.group(2) or shell.files.folder
    shell.listeners.append(Listener(int(match.group(1) or port), FileServer(folder, lists=True)))
    raise ForeverError


def _ss(shell: Shell, words: list[str]) -> int:
    """Print the sockets that listen. There are no others: connections end as soon as they are answered."""
    options, conditions = split_options(words)
    flags = set(options)
    match = _CONDITION.fullmatch(" ".join(conditions))
    if flags - set("antul46H") or not flags & set("al") or match is None:
        raise UnknownProgramError("ss")
    protocols = {"t": "TCP", "u": "UDP"}
    shown = {protocols[flag] for flag in flags & set("tu") or set("tu")}
    has_kind = len(shown) > 1
    if "H" not in flags:
        shell.print(
            _SOCKET.format(
                "Netid " if has_kind else "",
                "State",
                "Recv-Q",
                "Send-Q",
                "Local Address:Port",
                "Peer Address:Port Process",
            )
        )
    for protocol, address, port in shell.ask("ss", lambda client: client.find_sockets()):
        if port == ANY_PORT:
            raise UnknownProgramError("ss")
        if protocol in shown and match.group(1) in (None, str(port)):
            kind = f"{protocol.lower():<6}" if has_kind else ""
            state, waiting = ("LISTEN", "4096") if protocol == "TCP" else ("UNCONN", "0")
            shell.print(_SOCKET.format(kind, state, "0", waiting, f"{address}:{port}", "*:*"))
    return 0


COMMANDS: Final[dict[str, Command]] = {
    "curl": curl, "wget": wget, "nc": nc, "nslookup": nslookup, "dig": dig, "host": host, "getent": getent,
    "ss": _ss, "nginx": _nginx, "httpd": _httpd, "httpd-foreground": _httpd, "python": _python,
    "python3": _python,
}  # fmt: skip
