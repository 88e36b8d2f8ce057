"""Numbers of things in English."""

from __future__ import annotations


def count(number: int, noun: str, plural: str = "") -> str:
    """Return the number with its noun: "1 pod", "2 pods"."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"
