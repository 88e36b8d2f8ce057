"""`agnhost connect`: whether a connection can be opened, and why not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mooring.sandbox.network.messages import (
    UDP,
    NetworkError,
    OutsideError,
    Query,
    RefusedError,
    UnknownHostError,
)
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.netexec import port_number, seconds_of
from mooring.sandbox.programs.web_clients import resolve, send

if TYPE_CHECKING:
    from mooring.sandbox.programs.shell import Shell

_TIMEOUT: Final = 120.0  # seconds that Linux tries without a limit


def connect(shell: Shell, flags: dict[str, str], target: str) -> int:
    host, _, number = target.rpartition(":")
    protocol = flags.get("protocol", "tcp").upper()
    timeout = seconds_of(flags["timeout"]) if "timeout" in flags else _TIMEOUT
    if set(flags) - {"protocol", "timeout", "udp-data"} or protocol not in ("TCP", "UDP") or timeout is None:
        raise UnknownProgramError("agnhost connect")
    if not host or not re.fullmatch(r"\d{1,5}", number):
        shell.complain(f"UNKNOWN: address {target}: missing port in address\n")
        return 1
    port = port_number(number)
    try:
        address = resolve(shell, host.strip("[]"))
        if protocol == UDP:
            query = Query(body=f"{flags.get('udp-data', 'hostname')}\n".encode())
            return _report_silence(shell, timeout, bool(send(shell, address, port, query, UDP).body))
        shell.ask(f"connect {address}:{port}", lambda client: client.connect(address, port))
    except (UnknownHostError, OutsideError):
        shell.complain(f"DNS: lookup {host}: no such host\n")
        return 1
    except RefusedError:
        shell.complain("REFUSED\n")
        return 1
    except NetworkError:
        return _report_silence(shell, timeout, answered=False)
    return 0


def _report_silence(shell: Shell, timeout: float, answered: bool) -> int:
    if answered:
        return 0
    shell.wait(timeout)
    shell.complain("TIMEOUT\n")
    return 1
