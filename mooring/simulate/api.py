"""Simulations from Python."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from pathlib import Path

import msgspec

from mooring.api.meta import KubeObject
from mooring.simulate.arrivals import Arrivals
from mooring.simulate.metrics import summarize
from mooring.simulate.plan import Plan
from mooring.simulate.policies import Policy
from mooring.simulate.running import read_run, run_plan, runs_in
from mooring.simulate.statistics import Interval, interval
from mooring.simulate.tables import Tables

PolicyLike = Policy | str | None


class Simulation:
    """A cluster and a workload, to be run under several policies."""

    def __init__(
        self,
        nodes: Sequence[KubeObject],
        workload: Arrivals,
        *,
        seeds: Iterable[int] = (0,),
        until: float = inf,
        retry: bool = True,
        load_axis: str = "",
    ) -> None:
        self._nodes, self._workload = list(nodes), workload
        self._seeds, self._until, self._retry = list(seeds), until, retry
        self._load_axis = load_axis

    def run(self, policies: Mapping[str, PolicyLike], *, workers: int = 1) -> Runs:
        """Run every policy with every seed. A policy is a configuration file, a Policy, or None (default)."""
        plan = Plan(
            name="simulation",
            policies=[_policy(name, policy) for name, policy in policies.items()],
            seeds=self._seeds,
            objects=[_Fixed(self._nodes)],
            workload=[_Given(self._workload)],
            until=self._until,
            retry=self._retry,
            load_axis=self._load_axis,
        )
        with tempfile.TemporaryDirectory() as folder:
            run_plan(plan, Path(folder), workers=workers)
            return Runs([read_run(each)[1] for each in runs_in(Path(folder))])


class Runs:
    """The tables of runs; `runs["policy"]` has those of one policy, by seed."""

    def __init__(self, tables: Sequence[Tables]) -> None:
        self.tables = list(tables)

    def __getitem__(self, policy: str) -> list[Tables]:
        tables = [each for each in self.tables if each.policy == policy]
        if not tables:
            raise KeyError(policy)
        return tables

    def summary(self) -> dict[str, dict[str, Interval]]:
        """Mean and 95 % interval of each metric, by policy."""
        intervals: dict[str, dict[str, Interval]] = {}
        for policy in dict.fromkeys(each.policy for each in self.tables):
            metrics = [summarize(each) for each in self[policy]]
            names = dict.fromkeys(name for each in metrics for name in each)
            intervals[policy] = {n: interval([each[n] for each in metrics if n in each]) for n in names}
        return intervals


class _Fixed(msgspec.Struct):
    nodes: list[KubeObject]

    def objects(self, seed: int) -> list[KubeObject]:
        return self.nodes


class _Given(msgspec.Struct):
    workload: Arrivals

    def arrivals(self, seed: int, cluster: Sequence[KubeObject]) -> tuple[Arrivals, list[KubeObject]]:
        return self.workload, []


def _policy(name: str, policy: PolicyLike) -> Policy:
    if isinstance(policy, Policy):
        return msgspec.structs.replace(policy, name=name)
    if policy is None or isinstance(policy, str):
        return Policy(name, str(Path(policy).resolve()) if policy else "")
    raise TypeError(f"policy {name}: expected a configuration file, a Policy or None, found {policy!r}")
