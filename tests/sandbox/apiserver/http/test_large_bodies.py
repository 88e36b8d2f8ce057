"""Large bodies are decoded in a thread, with the answers of small ones."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mooring.sandbox.apiserver.http import large_bodies
from mooring.sandbox.apiserver.kinds.codec import BuiltinCodec, Decoded, FieldValidation
from tests.sandbox.apiserver.kit import Running

MAPS = "/api/v1/namespaces/default/configmaps"
LARGE = {f"key-{index}": "v" * 100 for index in range(large_bodies.LARGE // 100)}


@pytest.fixture
def decoding(server: Running, monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads that bodies were decoded in."""
    threads: list[threading.Thread] = []
    decode = BuiltinCodec.decode

    def noting(self: BuiltinCodec, data: bytes, validation: FieldValidation) -> Decoded:
        threads.append(threading.current_thread())
        return decode(self, data, validation)

    monkeypatch.setattr(BuiltinCodec, "decode", noting)
    return threads


def config_map(name: str, data: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data, **more}


def test_creates_and_updates(server: Running, decoding: list[threading.Thread]) -> None:
    for name, data in (("large", LARGE), ("small", {"a": "b"})):
        assert server.ask("POST", MAPS, config_map(name, data)).code == 201
        assert server.ask("PUT", f"{MAPS}/{name}", config_map(name, {**data, "c": "d"})).code == 200
        assert server.ask("GET", f"{MAPS}/{name}").tree["data"] == {**data, "c": "d"}
    elsewhere = [thread.name.startswith("asyncio_") for thread in decoding]
    assert elsewhere == [True, True, False, False]


@pytest.mark.parametrize("data", [LARGE, {"a": "b"}])
def test_errors_and_warnings_are_the_same(server: Running, data: dict[str, Any]) -> None:
    strict = f"{MAPS}?fieldValidation=Strict"
    answer = server.ask("POST", strict, config_map("x", data, unknown=1))
    assert (answer.code, answer.tree["message"]) == (
        400,
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        'unknown field "unknown"',
    )
    answer = server.ask("POST", MAPS, {**config_map("x", data), "kind": "Secret"})
    assert (answer.code, "Secret" in answer.tree["message"]) == (400, True)
    answer = server.ask("POST", f"{MAPS}?fieldValidation=x", config_map("x", data))
    assert (answer.code, answer.tree["reason"]) == (422, "Invalid")
    answer = server.ask("POST", f"{MAPS}?dryRun=All", config_map("x", data, unknown=1))
    assert (answer.code, answer.headers["warning"]) == (201, r'299 - "unknown field \"unknown\""')
