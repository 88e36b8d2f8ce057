"""Fuzzing of everything that comes from outside. `python -m tests.fuzz --help` shows how to run it."""
