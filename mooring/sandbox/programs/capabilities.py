"""Capabilities of containers, as bits in the order of Linux."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_NAMES: Final = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)  # fmt: skip
_BITS: Final = {name: 1 << at for at, name in enumerate(_NAMES)}
ALL: Final = sum(_BITS.values())
_DEFAULT: Final = (
    "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "NET_BIND_SERVICE",
    "NET_RAW", "SYS_CHROOT", "MKNOD", "AUDIT_WRITE", "SETFCAP",
)  # fmt: skip


def capability_bits(added: Iterable[str] = (), dropped: Iterable[str] = ()) -> int:
    """Return containerd's default capabilities with some added and some dropped."""
    return (_DEFAULT_BITS & ~_bits(dropped)) | _bits(added)


def has_capability(bits: int, name: str) -> bool:
    return bool(bits & _BITS[name])


def _bits(names: Iterable[str]) -> int:
    bits = 0
    for name in names:
        bits |= ALL if name.upper() == "ALL" else _BITS.get(name.upper().removeprefix("CAP_"), 0)
    return bits


_DEFAULT_BITS: Final = _bits(_DEFAULT)
