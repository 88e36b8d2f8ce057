"""Simulation in virtual time: what happens to a workload on a cluster under a scheduling policy."""
