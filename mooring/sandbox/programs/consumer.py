"""The image `resource-consumer`, which uses what it is asked to, and `agnhost resource-consumer-controller`,
which divides a load among the pods of a Service."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

import msgspec

from mooring.sandbox.network.messages import NetworkError, Query, Reply
from mooring.sandbox.network.network import dial_error
from mooring.sandbox.programs.errors import ForeverError, UnknownProgramError
from mooring.sandbox.programs.listeners import Listener, Process, text
from mooring.sandbox.programs.loads import Load
from mooring.sandbox.programs.netexec import port_number
from mooring.sandbox.programs.resolving import find_addresses

if TYPE_CHECKING:
    from mooring.sandbox.programs.shell import Shell

_SERVICE: Final = "resource-consumer"
_FORM: Final = "application/x-www-form-urlencoded"
_MOST_REQUESTS: Final = 200  # of one request to the controller
_NUMBER: Final = re.compile(r"\d{1,9}")


class _Consumption(NamedTuple):
    """What can be used: a resource, the parameters of a request, and what one of it is in nano-units."""

    resource: str
    amount: str
    request_size: str
    unit: int
    report: str


_CONSUMPTIONS: Final = {
    "/ConsumeCPU": _Consumption("cpu", "millicores", "requestSizeMillicores", 10**6, "millicores"),
    "/ConsumeMem": _Consumption("memory", "megabytes", "requestSizeMegabytes", 2**20 * 10**9, "MB"),
}


def run(shell: Shell, words: list[str]) -> int:
    """Run the program of the image."""
    flags = [re.fullmatch(r"--?port=(\d{1,5})", word) for word in words]
    if not shell.image.uses_loads or not all(flags):
        raise UnknownProgramError("consumer")
    port = port_number(flags[-1].group(1)) if flags and flags[-1] else 8080
    shell.listeners.append(Listener(port, _consume))
    raise ForeverError


def _consume(query: Query, process: Process) -> Reply:
    if query.method != "POST":
        return text("Bad request. Not a POST request\n", 400)
    consumption = _CONSUMPTIONS.get(query.path)
    if consumption is None:
        return text(f"unknown function: {query.path}\n", 404)
    names = (consumption.amount, "durationSec")
    numbers = _read_numbers(query, names)
    if isinstance(numbers, Reply):
        return numbers
    amount, seconds = numbers
    process.loads.append(
        Load(consumption.resource, amount * consumption.unit, process.now, process.now + seconds)
    )
    lines = [query.path[1:], f"{amount} {consumption.amount}", f"{seconds} durationSec"]
    return text("".join(f"{line}\n" for line in lines))


def _read_numbers(query: Query, names: tuple[str, ...]) -> list[int] | Reply:
    words = [query.param(name) for name in names]
    if not all(words):
        return text("not given function argument\n", 400)
    if not all(map(_NUMBER.fullmatch, words)):
        return text("incorrect function argument\n", 400)
    return [int(word) for word in words]


def listen(shell: Shell, flags: dict[str, str]) -> None:
    """Run the controller."""
    service = flags.get("consumer-service-name", _SERVICE)
    namespace = flags.get("consumer-service-namespace", "default")
    controller = Controller(
        f"{service}.{namespace}.svc.cluster.local", port_number(flags.get("consumer-port", "8080"))
    )
    shell.listeners.append(Listener(port_number(flags.get("port", "8080")), controller))


class Controller(msgspec.Struct, frozen=True):
    """Sends requests of a size each to the pods behind a name."""

    host: str
    port: int

    def __call__(self, query: Query, process: Process) -> Reply:
        if query.method != "POST":
            return text("Bad request. Not a POST request\n", 400)
        consumption = _CONSUMPTIONS.get(query.path)
        if consumption is None:
            return text("unknown function\n", 404)
        numbers = _read_numbers(query, (consumption.amount, "durationSec", consumption.request_size))
        if isinstance(numbers, Reply):
            return numbers
        total, seconds, size = numbers
        if not size:
            return text("incorrect function argument\n", 400)
        count, rest = divmod(total, size)
        unit = consumption.report
        lines = [
            f"RC manager: sending {count} requests to consume {size} {unit} each "
            f"and 1 request to consume {rest} {unit}\n"
        ]
        amounts = (*[size] * min(count, _MOST_REQUESTS), *([rest] if rest else ()))
        lines += [self._send(query.path, amount, seconds, process) for amount in amounts]
        return text("".join(lines))

    def _send(self, path: str, amount: int, seconds: int, process: Process) -> str:
        name = _CONSUMPTIONS[path].amount
        body = urlencode({"durationSec": seconds, name: amount}).encode()
        headers = {"host": f"{self.host}:{self.port}", "content-type": _FORM}
        address = self.host
        try:
            address = find_addresses(process.client, process.files, process.now, self.host)[0]
            process.client.ask(address, self.port, Query("POST", path, headers, body))
        except NetworkError as error:
            return f"Failed to connect to consumer: {dial_error(error, address, self.port)}\n"
        return f"Consumed {amount} {name}\n"
