"""What a plugin may answer, and the words for an answer that it may not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

from mooring.framework.plugin import PostFilterResult, PreFilterResult
from mooring.framework.status import Code, Status
from mooring.runtime.runners import EXPECTED_STATUS

_REFUSALS = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})
_NONE: frozenset[Code] = frozenset()

# The codes other than Success that mean something at each extension point; kube-scheduler takes any other
# for an error of the plugin.
ALLOWED: Mapping[str, frozenset[Code]] = {
    "pre_enqueue": _REFUSALS,
    "pre_filter": frozenset({Code.SKIP, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE}),
    "add_pod": _NONE,
    "remove_pod": _NONE,
    "filter": _REFUSALS,
    "filter_nodes": _REFUSALS,
    "post_filter": _REFUSALS,
    "pre_score": frozenset({Code.SKIP}),
    "reserve": _REFUSALS,
    "permit": _REFUSALS | {Code.WAIT},
    "pre_bind": _REFUSALS,
    "bind": _REFUSALS | {Code.SKIP},
}


class Place:
    """Where something was asked: every complaint begins with it."""

    __slots__ = ("_plugin", "_words", "method")

    def __init__(self, plugin: str, method: str, *, pod: str = "", node: str = "", where: str = "") -> None:
        self._plugin = plugin
        self.method = method
        named = (("pod", pod), ("node", node))
        self._words = "".join(f", {what} {name}" for what, name in named if name) + (where and f", {where}")

    def __str__(self) -> str:
        return f'plugin "{self._plugin}", {self.method}{self._words}'

    def fail(self, problem: str) -> NoReturn:
        raise AssertionError(f"{self}: {problem}")


def show(answer: object) -> str:
    return "success" if answer is None else repr(answer)


def check_status(place: Place, answer: object) -> Status | None:
    """The status, None for success; complains about one that has no meaning there."""
    if answer is None:
        return None
    if not isinstance(answer, Status):
        place.fail(f"returned {answer!r}; expected {EXPECTED_STATUS}")
    if answer.code is Code.SUCCESS:
        return None
    if answer.code is Code.ERROR:
        place.fail(f"returned an error: {answer.message}")
    allowed = ALLOWED[place.method]
    if answer.code not in allowed:
        expected = ", ".join(code.text for code in sorted({Code.SUCCESS, *allowed}))
        place.fail(f"returned {answer!r}; expected one of {expected}")
    _check_content(place, answer)
    return answer


def _check_content(place: Place, status: Status) -> None:
    for reason in status.reasons:
        if not isinstance(reason, str) or not reason.strip():
            place.fail(f"gave the reason {reason!r}; expected a text that a person can read")
    if status.rejected and not status.reasons:
        place.fail(f"refused without a reason ({status!r}); say why, the pod's user reads it")
    if status.code is Code.WAIT and not _is_time(status.timeout):
        place.fail(f"waits for {status.timeout!r} seconds; expected a number that is not negative")
    if status.not_before is not None and not _is_time(status.not_before):
        place.fail(f"refuses until {status.not_before!r}; expected seconds since the epoch")


def _is_time(value: object) -> bool:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return numeric and math.isfinite(value) and value >= 0  # type: ignore[arg-type, operator]


def check_nothing(place: Place, answer: object) -> None:
    """Complain about an answer of a method whose answers are ignored."""
    if answer is not None:
        place.fail(f"returned {answer!r}, which is ignored; expected None")


def check_pre_filter(place: Place, answer: object) -> PreFilterResult | Status | None:
    if not isinstance(answer, PreFilterResult):
        if answer is not None and not isinstance(answer, Status):
            place.fail(f"returned {answer!r}; expected None, a Status or a PreFilterResult")
        return check_status(place, answer)
    names: Any = answer.node_names
    if not isinstance(names, set | frozenset) or not all(isinstance(name, str) for name in names):
        place.fail(f"returned {answer!r}; expected node_names to be a frozenset of node names")
    return answer


def check_post_filter(place: Place, answer: object) -> None:
    if not isinstance(answer, PostFilterResult):
        if answer is not None and not isinstance(answer, Status):
            place.fail(f"returned {answer!r}; expected None, a Status or a PostFilterResult")
        check_status(place, answer)
        return
    check_status(place, answer.status)
    if answer.nominated_node is not None and not isinstance(answer.nominated_node, str):
        place.fail(f'nominated {answer.nominated_node!r}; expected a node name, "" or None')
    if answer.victims and not answer.nominated_node:
        place.fail("named victims without a nominated node; expected the node they are to make room on")
