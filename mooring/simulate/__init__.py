"""Simulation in virtual time: what happens to a workload on a cluster under a scheduling policy."""

from mooring.simulate.api import Runs, Simulation
from mooring.simulate.compare import compare_tables as compare
from mooring.simulate.policies import Policy
from mooring.simulate.traces import read_trace as trace

__all__ = ["Policy", "Runs", "Simulation", "compare", "trace"]
