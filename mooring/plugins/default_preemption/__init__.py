"""Preemption: find a node where evicting pods of lower priority makes room."""
