"""What type checkers infer for plugin authors, without casts. mypy checks this file with the others."""

from __future__ import annotations

from typing import assert_type

from mooring.framework import Args, CycleState, NodeInfo, Plugin, PodInfo, StateKey, Status, unschedulable
from mooring.testing import check_plugin


class LimitArgs(Args):
    most: int = 110


COUNTS = StateKey[dict[str, int]]("pods by node")


class Limited(Plugin[LimitArgs]):
    name = "Limited"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        assert_type(self.args, LimitArgs)
        assert_type(self.args.most, int)
        counts = state.get(COUNTS)
        assert_type(counts, dict[str, int] | None)
        state.write(COUNTS, {**(counts or {}), node.name: len(node.pods)})
        assert_type(state.read(COUNTS), dict[str, int])
        assert_type(state.cached(COUNTS, dict), dict[str, int])
        return unschedulable("too many pods") if len(node.pods) > self.args.most else None


class WithoutArguments(Plugin):
    name = "WithoutArguments"

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return len(node.pods) % 100


def wrong(plugin: Limited, state: CycleState) -> None:
    """Each line is an error for type checkers; an unused ignore would be one, too."""
    state.write(COUNTS, {"": plugin.args.least})  # type: ignore[attr-defined]
    state.write(COUNTS, 7)  # type: ignore[misc]
    state.read("counts")  # type: ignore[arg-type]


def test_typed_plugins_run() -> None:
    check_plugin(Limited, LimitArgs(most=3))
    check_plugin(WithoutArguments)
