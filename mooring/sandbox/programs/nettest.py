"""`agnhost nettest`: counts who has written to it. It contacts no peers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from mooring.sandbox.network.messages import Query, Reply
from mooring.sandbox.programs.listeners import Process, json_text, text

_MOST = 1000  # sources


def answer(query: Query, process: Process) -> Reply:
    """Answer by HTTP."""
    received: Counter[str] = process.state.setdefault("received", Counter())
    if query.path == "/read":
        return json_text(_state(process, dict(received)))
    if query.path == "/write":
        source = _source(query.body)
        if source in received or len(received) < _MOST:
            received[source] += 1
        return json_text(msgspec.json.encode({"Hostname": process.name}))
    if query.path == "/status":
        return text("running")
    if query.path == "/quit":
        process.exit = 0.0, 0
        return Reply(0)
    return text("404 page not found\n", 404)


def _state(process: Process, received: dict[str, int]) -> bytes:
    state: dict[str, Any] = {"Hostname": process.name, "Sent": None, "Received": received or None}
    return msgspec.json.encode({**state, "Errors": None, "Log": None, "StillContactingPeers": True})


def _source(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=dict[str, str]).get("Source", "")
    except msgspec.DecodeError:
        return ""
