"""Fault simulation: a whole cluster in virtual time, faults from a seed, a checker of its history."""
