"""Plugins that raise what ends a process: it is an error of that attempt, but Ctrl-C still works."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import pytest

from mooring.framework import Action, Resource, Status, requeue_on, unschedulable
from mooring.framework.registration import RegistrationError
from mooring.framework.status import Code
from mooring.runtime.registry import Registry
from mooring.testing import make_node, make_pod
from tests.framework.kit import only, probe
from tests.framework.test_plugins_misbehaving import BAD, NEVER, failure, for_bad, misbehaving

POINTS = (
    "pre_filter", "filter", "filter_nodes", "pre_score", "score", "score_nodes", "normalize_score",
    "score_groups", "reserve", "permit", "pre_bind", "bind",
)  # fmt: skip


def exiting(*args: Any) -> Any:
    sys.exit(3)


def interrupting(*args: Any) -> Any:
    raise KeyboardInterrupt


def closing(*args: Any) -> Any:
    try:
        raise GeneratorExit("over")
    finally:
        len(args)


class Panic(BaseException):
    """As extension modules raise it."""


def panicking(*args: Any) -> Any:
    raise Panic("over")


def cancelling(*args: Any) -> Any:
    raise asyncio.CancelledError


EXITS = pytest.mark.parametrize(
    ("leave", "words"),
    [
        (exiting, "SystemExit: 3"),
        (interrupting, "KeyboardInterrupt"),
        (closing, "GeneratorExit: over"),
        (panicking, "Panic: over"),
        (cancelling, "CancelledError"),
    ],
)


@EXITS
@pytest.mark.parametrize("method", POINTS)
def test_the_attempt_is_an_error_and_the_next_pod_is_scheduled(method: str, leave: Any, words: str) -> None:
    cluster = only(misbehaving(method, leave))
    cluster.apply(make_pod(BAD), make_pod("after"))
    cluster.schedule()
    assert words in failure(cluster, BAD)
    assert cluster.node_of("after")


@EXITS
def test_after_an_await_it_is_an_error_too(leave: Any, words: str) -> None:
    async def bind(*args: Any) -> Any:
        return leave()

    cluster = only(probe("Bad", events_to_register=NEVER, bind=for_bad(bind, Status(Code.SKIP))))
    cluster.apply(make_pod(BAD), make_pod("after"))
    cluster.schedule()
    assert words in failure(cluster, BAD)
    assert cluster.node_of("after")


@EXITS
def test_what_stands_beside_an_attempt_goes_on(leave: Any, words: str) -> None:
    full = [True]
    hints = [requeue_on(Resource.NODE, Action.ADD, leave)]
    refuser = probe(
        "Bad",
        filter=lambda *args: unschedulable("no") if full else None,
        post_filter=leave,
        unreserve=leave,
        post_bind=leave,
        events_to_register=hints,
    )
    cluster = only(refuser)
    cluster.apply(make_pod())
    cluster.schedule()
    full.clear()
    cluster.apply(make_node("new"))
    cluster.advance(3)
    assert cluster.node_of("pod")


@EXITS
def test_a_constructor_or_module_that_exits_is_an_error_at_the_start(
    leave: Any, words: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Exception, match="Bad"):
        only(probe("Bad", __init__=leave, filter=None))
    (tmp_path / "leaving_plugin.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RegistrationError, match="SystemExit: 3"):
        Registry().register_path("leaving_plugin:Anything")


def test_ctrl_c_in_the_middle_of_a_plugin_ends_the_program() -> None:
    def slow(*args: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            pass

    cluster = only(probe("Slow", filter=slow))
    cluster.apply(make_pod())
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            cluster.schedule()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_cancelled_binding_is_cancelled() -> None:
    async def bind(*args: Any) -> None:
        await asyncio.sleep(3600)

    async def cancel() -> None:
        cluster = only(probe("Slow", bind=bind))
        cluster.apply(make_pod())
        cluster.scheduler.schedule_one()
        (effect,) = cluster.scheduler.take_effects()
        task = asyncio.ensure_future(effect.cycle.run())  # type: ignore[union-attr]
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(cancel())


def test_a_future_that_was_cancelled_is_an_error_of_the_attempt() -> None:
    """It is asyncio that raises here, in a method that nothing can cancel."""

    def waiting(*args: Any) -> Any:
        loop = asyncio.new_event_loop()
        future = loop.create_future()
        future.cancel()
        loop.close()
        return future.result()

    cluster = only(misbehaving("filter", waiting))
    cluster.apply(make_pod(BAD), make_pod("after"))
    cluster.schedule()
    assert "CancelledError" in failure(cluster, BAD)
    assert cluster.node_of("after")


class UnprintableError(Exception):
    """Has neither a text nor a representation."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def raising_unprintable(*args: Any) -> Any:
    raise UnprintableError


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (raising_unprintable, "UnprintableError"),
        (lambda *args: UnprintableError(), "returned <UnprintableError object>; expected"),
        (lambda *args: unschedulable(5), "5"),  # type: ignore[arg-type]
        (lambda *args: unschedulable("\ud800"), "?"),
        (lambda *args: "x" * 10_000_000, "xxx...; expected"),
    ],
)
@pytest.mark.parametrize(
    "method", ["pre_enqueue", "pre_filter", "filter", "reserve", "permit", "pre_bind", "post_bind"]
)
def test_what_cannot_be_shown_concerns_no_other_pod(method: str, answer: Any, words: str) -> None:
    cluster = only(probe("Bad", events_to_register=NEVER, **{method: for_bad(answer)}))
    cluster.apply(make_pod(BAD), make_pod("after"))
    cluster.schedule()
    assert cluster.node_of("after")
    conditions = cluster.pod(BAD).status.conditions
    assert all(words in c.message and len(c.message) < 2000 for c in conditions)
    assert len(conditions) == (method not in ("pre_enqueue", "post_bind"))
