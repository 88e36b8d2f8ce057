"""Guided demos: each starts a sandbox cluster, runs its steps and checks their outcome."""
