"""Expectations: bounds on metrics that make a scenario a test."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

import msgspec

from mooring.config.findings import did_you_mean
from mooring.simulate.metrics import at_arrived, find_resource, summarize
from mooring.simulate.scenario import ExpectSpec
from mooring.simulate.tables import Tables
from mooring.simulate.units import parse_share

ALLOCATION = "allocation."


class Verdict(msgspec.Struct):
    """Whether the mean over the seeds of one policy is within bounds."""

    policy: str
    metric: str
    value: float
    lowest: float
    highest: float
    passed: bool
    note: str = ""

    def __str__(self) -> str:
        word = "ok" if self.passed else "FAILED"
        note = f" ({self.note})" if self.note else ""
        bounds = f"expected {self.lowest:g} to {self.highest:g}"
        return f"{word}: {self.policy}: {self.metric}: {self.value:.4g}, {bounds}{note}"


def judge(
    expectations: Sequence[ExpectSpec], runs: Sequence[Tables], load_axis: str, prices: dict[str, float]
) -> list[Verdict]:
    """Raises ValueError for a metric that there is not."""
    verdicts = []
    for expectation in expectations:
        policies = [expectation.policy] if expectation.policy else list(dict.fromkeys(r.policy for r in runs))
        for policy in policies:
            mine = [run for run in runs if run.policy == policy]
            values = [_value(expectation, run, load_axis, prices) for run in mine]
            mean = sum(values) / len(values) if values else float("nan")
            low, high = expectation.within
            passed = low <= mean <= high
            note = "" if passed or not mine else _why(mine[0])
            text = expectation.metric + (f" at arrived {expectation.at['arrived']}" if expectation.at else "")
            verdicts.append(Verdict(policy, text, mean, low, high, passed, note))
    return verdicts


def _value(expectation: ExpectSpec, run: Tables, load_axis: str, prices: dict[str, float]) -> float:
    name = expectation.metric
    metrics = summarize(run, load_axis, prices)
    short, dot, rest = name.partition(".")
    if short + dot == ALLOCATION:
        resource_name, _, suffix = rest.partition(".") if rest.endswith((".peak", ".end")) else (rest, "", "")
        resource = find_resource(run, resource_name, load_axis)
        if resource is None:
            raise ValueError(f"expect: no resource {resource_name}: there are {', '.join(run.resources())}")
        if expectation.at:
            return at_arrived(run, resource, parse_share(expectation.at["arrived"]))
        name = ALLOCATION + resource + (f".{suffix}" if suffix else "")
    if name not in metrics:
        hint = did_you_mean(name, metrics) or f"there are {', '.join(sorted(metrics))}"
        raise ValueError(f'expect: no metric "{name}": {hint}')
    return metrics[name]


def _why(run: Tables) -> str:
    """The first pod that was not bound, or that waited longest."""
    pods = run.pods
    waits = [
        (row, pods.bound[row] - pods.created[row])
        for row in range(len(pods))
        if pods.bound[row] > pods.created[row]
    ]
    for row in range(len(pods)):
        if isnan(pods.bound[row]):
            reason = pods.reason[row] or "no attempt"
            return f"first pod without a node: {pods.name[row]}, rejected by {reason}"
    if waits:
        row, wait = max(waits, key=lambda pair: pair[1])
        return f"longest wait: {pods.name[row]}, {wait:.4g} s"
    return ""
