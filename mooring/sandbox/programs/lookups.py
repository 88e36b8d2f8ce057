"""nslookup, dig, host and getent in containers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from mooring.sandbox.network.messages import NetworkError, OutsideError
from mooring.sandbox.network.names import SERVER, TTL, DnsRecord
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.resolving import (
    find_addresses,
    find_host,
    find_records,
    is_address,
    not_found,
    read_resolver,
    search,
)
from mooring.sandbox.programs.wire import Client

if TYPE_CHECKING:
    from mooring.sandbox.programs.shell import Shell

T = TypeVar("T")
_KINDS: Final = frozenset(("A", "AAAA", "SRV", "PTR", "CNAME", "ANY", "MX", "TXT", "NS"))


def _ask(shell: Shell, what: str, act: Callable[[Client], T]) -> T:
    """Ask a question. Raises NetworkError; a loop that waits for the world outside is not run."""
    try:
        return shell.ask(what, act)
    except OutsideError:
        if shell.is_waiting:
            raise UnknownProgramError(what) from None
        raise


def _reverse_name(address: str) -> str:
    return ".".join(reversed(address.split("."))) + ".in-addr.arpa."


def _search(shell: Shell, name: str, kind: str) -> list[DnsRecord]:
    """Raises NetworkError if there is nothing."""

    def look(client: Client) -> list[DnsRecord]:
        records = search(client, shell.files, shell.now, name, kind)
        if not records:
            raise not_found(client, name)
        return records

    return _ask(shell, f"{kind} {name}", look)


def nslookup(shell: Shell, words: list[str]) -> int:
    kinds = [
        word.partition("=")[2].upper() for word in words if word.startswith(("-type=", "-q=", "-query="))
    ]
    rest = [word for word in words if not word.startswith("-")]
    if not 1 <= len(rest) <= 2 or len(kinds) + len(rest) != len(words) or len(rest[0]) > 255:
        raise UnknownProgramError("nslookup")
    name = rest[0]
    kind = "PTR" if is_address(name) else kinds[-1] if kinds else "A"
    shell.print(f"Server:\t\t{SERVER}\nAddress:\t{SERVER}:53\n\n")
    try:
        records = _search(shell, _reverse_name(name) if is_address(name) else name, kind)
    except NetworkError:
        shell.print(f"** server can't find {name}: NXDOMAIN\n\n")
        return 1
    for one in records:
        shell.print(_SHOWN.get(one.kind, _SHOWN["A"]).format(one=one))
    shell.print("\n")
    return 0


_SHOWN: Final = {
    "A": "Name:\t{one.name}\nAddress: {one.data}\n",
    "CNAME": "{one.name}\tcanonical name = {one.data}\n",
    "PTR": "{one.name}\tname = {one.data}\n",
    "SRV": "{one.name}\tservice = {one.data}\n",
}


def host(shell: Shell, words: list[str]) -> int:
    if len(words) != 1 or words[0].startswith("-"):
        raise UnknownProgramError("host")
    try:
        records = _search(shell, words[0], "A")
    except NetworkError:
        shell.print(f"Host {words[0]} not found: 3(NXDOMAIN)\n")
        return 1
    for one in records:
        verb = "is an alias for" if one.kind == "CNAME" else "has address"
        shell.print(f"{one.name} {verb} {one.data}\n")
    return 0


def dig(shell: Shell, words: list[str]) -> int:
    switches = {word[1:] for word in words if word.startswith("+")}
    rest = [word for word in words if not word.startswith(("+", "@"))]
    name, kind = "", "A"
    while rest:
        word = rest.pop(0)
        if word == "-x" and rest and is_address(rest[0]):
            name, kind = _reverse_name(rest.pop(0)), "PTR"
        elif word == "-t" and rest:
            kind = rest.pop(0).upper()
        elif word.upper() in _KINDS:
            kind = word.upper()
        elif word.startswith("-") or name or len(word) > 255:
            raise UnknownProgramError("dig")
        else:
            name = word
    if not name:
        raise UnknownProgramError("dig")

    def look(client: Client) -> list[DnsRecord]:
        if "search" in switches:
            return search(client, shell.files, shell.now, name, kind)
        return find_records(client, read_resolver(shell.files, shell.now), name, kind)

    try:
        records = _ask(shell, f"dig {kind} {name} {'search' in switches}", look)
    except NetworkError:
        shell.print(";; communications error: no servers could be reached\n")
        return 9
    if "short" in switches:
        shell.print("".join(f"{one.data}\n" for one in records))
        return 0
    answer = "".join(f"{one.name}.\t{TTL}\tIN\t{one.kind}\t{one.data}\n" for one in records)
    if "noall" not in switches:
        answer = f";; QUESTION SECTION:\n;{name.rstrip('.')}.\tIN\t{kind}\n\n;; ANSWER SECTION:\n{answer}\n"
    shell.print(answer)
    return 0


def getent(shell: Shell, words: list[str]) -> int:
    if len(words) != 2 or words[0] not in ("hosts", "ahosts", "ahostsv4") or len(words[1]) > 255:
        raise UnknownProgramError("getent")
    name = words[1]
    known = find_host(shell.files, shell.now, name)
    if known is not None:
        shell.print(f"{known[0]:<15} {' '.join(known[1])}\n")
        return 0
    try:
        addresses = _ask(
            shell, f"getent {name}", lambda client: find_addresses(client, shell.files, shell.now, name)
        )
    except NetworkError:
        return 2
    shell.print("".join(f"{address:<15} {name}\n" for address in addresses))
    return 0
