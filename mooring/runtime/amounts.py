"""How the amounts of nodes are laid out, in the lines of the node table and in the tuple of one node.

First what a node has, then what its pods take of that: each of pods, then of every resource in the table's
order. At the end what the pods take of cpu and memory if a container that requests none of them counts with a
default. What is computed with one another lies side by side: NumPy needs a fraction of the time for that.
"""

from __future__ import annotations

ALLOWED_PODS = 0
NONZERO = slice(-2, None)


def pods_line(lines: int) -> int:
    """Among so many lines the one of the number of pods, from which on they are about what pods take."""
    return lines // 2 - 1


def lines_for(resources: int) -> int:
    """How many lines it takes for so many resources."""
    return 2 * (1 + resources) + 2


def wrap_int64(amount: int) -> int:
    """Overflow as int64 does in Go and NumPy: one node computed with Python's integers must give what its row
    gives."""
    if -(2**63) <= amount < 2**63:
        return amount
    return (amount + 2**63) % 2**64 - 2**63
