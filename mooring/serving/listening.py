"""Sockets that servers listen on."""

from __future__ import annotations

import errno
import os
import socket

from mooring.serving.settings import EndpointError, EndpointSettings, parse_address

BACKLOG = 1024


def open_listener(settings: EndpointSettings) -> socket.socket:
    """Listen on the address and port of the flags. Raises EndpointError."""
    address, port = settings.bind_address, settings.secure_port
    parse_address(address)
    try:
        return listen(address, port)
    except OSError as error:
        raise EndpointError(
            f"cannot listen on {address} port {port}: {os.strerror(error.errno or 0)}\n"
            "hint: choose others with --bind-address and --secure-port"
        ) from None


def listen(host: str, port: int) -> socket.socket:
    """Listen on a host; an unspecified address means all addresses of both families. Raises OSError."""
    listener = _listen_everywhere(port) if host in ("0.0.0.0", "::") else _listen_on(host, port)
    listener.setblocking(False)
    return listener


def _listen_everywhere(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
            )
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:  # IPv6 is compiled in, and switched off
                raise
    return socket.create_server(("0.0.0.0", port), backlog=BACKLOG)


def _listen_on(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)
