"""Benchmarks: programs that print rates and ratios. Nothing here asserts on time."""
