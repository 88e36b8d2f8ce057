"""What names mean in a container: by its /etc/hosts and /etc/resolv.conf, and the cluster's DNS server."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address
from typing import Final, NamedTuple

from mooring.sandbox.network.messages import OutsideError, UnknownHostError
from mooring.sandbox.network.names import DOMAIN, SERVER, DnsRecord
from mooring.sandbox.programs.file import FileError
from mooring.sandbox.programs.files import Files
from mooring.sandbox.programs.wire import Client

_MOST_NAMES: Final = 32


class Resolver(NamedTuple):
    """/etc/resolv.conf."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    ndots: int = 1

    def candidates(self, name: str) -> list[str]:
        """Return the full names that are tried, in order."""
        if name.endswith("."):
            return [name]
        searched = [f"{name}.{domain.rstrip('.')}." for domain in self.searches]
        names = [*searched, f"{name}."] if name.count(".") < self.ndots else [f"{name}.", *searched]
        return names[:_MOST_NAMES]


def read_resolver(files: Files, now: float) -> Resolver:
    """Raises UnknownProgramError."""
    resolver = Resolver()
    for keyword, *values in _lines(files, "/etc/resolv.conf", now):
        if keyword == "nameserver":
            resolver = resolver._replace(servers=(*resolver.servers, *values[:1]))
        elif keyword == "search":
            resolver = resolver._replace(searches=tuple(values))
        elif keyword == "options":
            dots = [one.removeprefix("ndots:") for one in values if one.startswith("ndots:")]
            resolver = resolver._replace(ndots=int(dots[-1][:2]) if dots and dots[-1].isdecimal() else 1)
    return resolver


def find_host(files: Files, now: float, name: str) -> tuple[str, list[str]] | None:
    """Return the address of a name in /etc/hosts, with all names of that line. Raises UnknownProgramError."""
    for address, *names in _lines(files, "/etc/hosts", now):
        if name in names and ":" not in address:
            return address, names
    return None


def find_addresses(client: Client, files: Files, now: float, name: str) -> list[str]:
    """Return what a program may connect to. Raises UnknownHostError, OutsideError and
    UnknownProgramError."""
    if is_address(name):
        return [name]
    if host := find_host(files, now, name):
        return [host[0]]
    addresses = [one.data for one in search(client, files, now, name) if one.kind == "A"]
    if not addresses:
        raise not_found(client, name)
    return addresses


def search(client: Client, files: Files, now: float, name: str, kind: str = "A") -> list[DnsRecord]:
    """Return the records of the first name that has some. Raises OutsideError and UnknownProgramError."""
    resolver = read_resolver(files, now)
    for candidate in resolver.candidates(name):
        if records := find_records(client, resolver, candidate, kind):
            return records
    return []


def find_records(client: Client, resolver: Resolver, name: str, kind: str = "A") -> list[DnsRecord]:
    """Ask the DNS server for the records of a full name. Raises OutsideError."""
    if SERVER not in resolver.servers:
        raise OutsideError
    return client.find_records(name, kind)


def not_found(client: Client, name: str) -> UnknownHostError | OutsideError:
    """Return the error for a name without addresses: it may be one of the world outside."""
    labels = name.rstrip(".").removesuffix(f".{DOMAIN}").removesuffix(".svc").split(".")
    inside = len(labels) == 1 or name.rstrip(".").endswith(DOMAIN)
    if inside or client.network.services.has_namespace(labels[-1]):
        return UnknownHostError(name)
    return OutsideError(name)


def is_address(text: str) -> bool:
    try:
        IPv4Address(text)
    except AddressValueError:
        return False
    return True


def _lines(files: Files, path: str, now: float) -> list[list[str]]:
    try:
        text = files.read(path, now)
    except FileError:
        return []
    lines = (line.partition("#")[0].split() for line in text.splitlines()[:200])
    return [line for line in lines if len(line) > 1]
