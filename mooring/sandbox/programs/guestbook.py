"""`agnhost guestbook`: an application of several tiers. Replicas register with a primary, which sends them
every entry; a frontend asks both."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from mooring.sandbox.network.messages import NetworkError, Query, Reply
from mooring.sandbox.programs.errors import ExitError, ForeverError, UnknownProgramError
from mooring.sandbox.programs.listeners import Listener, Process, json_text, text
from mooring.sandbox.programs.netexec import dial, port_number
from mooring.sandbox.programs.resolving import find_addresses
from mooring.sandbox.programs.web_clients import resolve, send

if TYPE_CHECKING:
    from mooring.sandbox.programs.shell import Shell

_PRIMARY, _REPLICA = "agnhost-primary", "agnhost-replica"
_PATIENCE: Final = 15  # seconds in which a replica has to register
_MOST: Final = 1000  # entries, replicas
_LONGEST: Final = 4096


def run(shell: Shell, flags: dict[str, str]) -> int:
    """Run until stopped; a replica registers before. Raises ExitError, ForeverError and
    UnknownProgramError."""
    if set(flags) - {"http-port", "backend-port", "replicaof"}:
        raise UnknownProgramError("agnhost guestbook")
    backend = port_number(flags.get("backend-port", "6379"))
    shell.listeners.append(Listener(port_number(flags.get("http-port", "80")), Guestbook(backend)))
    if primary := flags.get("replicaof"):
        _register(shell, primary, backend)
    raise ForeverError


def _register(shell: Shell, primary: str, port: int) -> None:
    own = shell.ask("own address", lambda client: client.source.address)
    for _ in range(_PATIENCE):
        try:
            send(shell, resolve(shell, primary), port, Query("GET", f"/register?host={own}"))
        except NetworkError as error:
            shell.print(f"encountered error while registering to primary: {error}. Retrying in 1s.\n")
            shell.seconds += 1.0
        else:
            shell.print(f"Registered to node: {primary}\n")
            return
    shell.print("Timed out while registering to primary.\n")
    raise ExitError(1)


class Guestbook(msgspec.Struct, frozen=True):
    """Answers by HTTP; the entries are in the state of its process."""

    backend: int

    def __call__(self, query: Query, process: Process) -> Reply:
        answers: dict[str, Callable[[Query, Process], Reply]] = {
            "/register": self._register,
            "/get": self._get,
            "/set": self._set,
            "/guestbook": self._ask,
        }
        answer = answers.get(query.path)
        process.log(f"GET {query.target}")
        return text("404 page not found\n", 404) if answer is None else answer(query, process)

    def _register(self, query: Query, process: Process) -> Reply:
        replicas: dict[str, None] = process.state.setdefault("replicas", {})
        if len(replicas) < _MOST:
            replicas[query.param("host")[:_LONGEST]] = None
        return _data(process.state.get("entries", {}))

    def _get(self, query: Query, process: Process) -> Reply:
        entries: dict[str, str] = process.state.get("entries", {})
        key = query.param("key")
        return _data(entries.get(key, "") if key else entries)

    def _set(self, query: Query, process: Process) -> Reply:
        key, value = query.param("key"), query.param("value")
        if not key:
            return text("cannot set with empty key.\n", 400)
        entries: dict[str, str] = process.state.setdefault("entries", {})
        if key in entries or len(entries) < _MOST:
            entries[key[:_LONGEST]] = value[:_LONGEST]
        for replica in process.state.get("replicas", ()):
            try:
                dial(process, replica, self.backend, f"set?key={key}&value={value}")
            except NetworkError as error:
                why = f"encountered error while propagating to replica '{replica}': {error}\n"
                return text(why, 417)
        return json_text(b'{"message":"Updated"}')

    def _ask(self, query: Query, process: Process) -> Reply:
        command, key, value = query.param("cmd").lower(), query.param("key"), query.param("value")
        if command not in ("get", "set"):
            return text(f"unsupported cmd: '{command}'\n", 400)
        host = _PRIMARY if command == "set" else _REPLICA
        try:
            address = find_addresses(process.client, process.files, process.now, host)[0]
            return text(dial(process, address, self.backend, f"{command}?key={key}&value={value}"))
        except NetworkError as error:
            return text(f"encountered error: {error}\n", 417)


def _data(value: object) -> Reply:
    return json_text(msgspec.json.encode({"data": value}))
