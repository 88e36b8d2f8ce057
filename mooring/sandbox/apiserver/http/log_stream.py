"""Logs over WebSockets, as kubelets send them: binary messages, and the end of the connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from mooring.sandbox.apiserver.errors import bad_request
from mooring.serving.exchange import Exchange
from mooring.serving.websocket import HandshakeError, WebSocket, choose_protocol

_PROTOCOLS: Final = ("binary.k8s.io", "")


def wants_websocket(exchange: Exchange) -> bool:
    """Whether the client asks for a WebSocket, as any request for text may."""
    return exchange.header(b"upgrade").lower() == "websocket"


async def send_text(exchange: Exchange, texts: AsyncIterator[str]) -> None:
    """Send text over a WebSocket. Raises ApiError where the handshake is rejected."""
    try:
        protocol = choose_protocol(exchange, _PROTOCOLS)
    except HandshakeError as error:
        raise bad_request(str(error)) from None
    socket = WebSocket(exchange, protocol)
    async for text in texts:
        if socket.is_closed:
            return
        if text:
            await socket.send(text.encode())
    socket.close()


async def whole(text: str) -> AsyncIterator[str]:
    """Yield a text that is there as a whole."""
    yield text
