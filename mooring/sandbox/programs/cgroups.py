"""The cgroup files of containers and pods: how Linux is given their requests and limits."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from mooring.api.quantity import milli_value

ROOT: Final = "sys/fs/cgroup"
_PERIOD: Final = 100_000  # microseconds
_LEAST_QUOTA: Final = 1_000
_CPU: Final = 10**9  # in nano-units
_PAGE: Final = 4096
_LEAST_SHARES, _MOST_SHARES = 2, 262_144
_MOST_WEIGHT: Final = 10_000


class Limits(NamedTuple):
    """What a cgroup is given, in nano-units; 0 is no limit."""

    cpu_request: int = 0
    cpu_limit: int = 0
    memory_limit: int = 0

    def files(self) -> dict[str, str]:
        """Return the files of cgroup v2 that say so."""
        return {
            "cpu.max": f"{self._quota} {_PERIOD}\n",
            "cpu.weight": f"{_weight(self._shares)}\n",
            "memory.max": f"{self.memory_limit // 10**9 // _PAGE * _PAGE if self.memory_limit else 'max'}\n",
        }

    @property
    def _quota(self) -> int | str:
        return max(self.cpu_limit * _PERIOD // _CPU, _LEAST_QUOTA) if self.cpu_limit else "max"

    @property
    def _shares(self) -> int:
        """The weight in cgroup v1, in which the kubelet counts: 1024 is a CPU."""
        shares = milli_value(self.cpu_request or self.cpu_limit) * 1024 // 1000
        return min(max(shares, _LEAST_SHARES), _MOST_SHARES)


def _weight(shares: int) -> int:
    """Convert shares as runc does: the least, 1024 and the most become 1, 100 and 10,000."""
    if shares <= _LEAST_SHARES:
        return 1
    if shares >= _MOST_SHARES:
        return _MOST_WEIGHT
    power = math.log2(shares)
    return math.ceil(10 ** ((power * power + 125 * power) / 612 - 7 / 34))


def pod_path(uid: str, qos_class: str) -> str:
    """Return the folder of a pod's cgroup on its node."""
    parent, middle = f"{ROOT}/kubepods.slice", "" if qos_class == "Guaranteed" else f"-{qos_class.lower()}"
    if middle:
        parent += f"/kubepods{middle}.slice"
    return f"{parent}/kubepods{middle}-pod{uid.replace('-', '_')}.slice"
