"""Snapshots and recordings of real clusters, as input for simulations."""
