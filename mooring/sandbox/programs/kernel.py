"""What Linux shows a container of itself, in /proc and /sys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from zlib import crc32

from mooring.sandbox.programs.cgroups import ROOT, Limits
from mooring.sandbox.programs.file import File
from mooring.sandbox.programs.specs import Sysctl
from mooring.sandbox.programs.user import User

_SWAPPED: Final = str.maketrans("./", "/.")
KERNEL_FOLDERS: Final = ("/proc", "/sys")
"""Where the files of the kernel are mounted."""
_ALL_USERS: Final = (0, 0, 2**32 - 1)
_NAMESPACE_SIZE: Final = 65_536  # users of a user namespace
_MOST_NAMESPACES: Final = 2**15 - 1


class Shares(NamedTuple):
    """What a node gives a container of itself. `cpus` is None where it is not known."""

    limits: Limits = Limits()
    oom_score_adj: int = 0
    cpus: int | None = None


def _status(user: User, cpus: int | None) -> str:
    """Return the part of /proc/PID/status that follows from a pod."""
    privileges = user.privileges
    lines = {
        "Uid": "\t".join([str(user.uid)] * 4),
        "Gid": "\t".join([str(user.gid)] * 4),
        "Groups": "".join(f"{group} " for group in sorted({user.gid, *user.groups})),
        "CapInh": f"{0:016x}",
        "CapPrm": f"{user.capabilities:016x}",
        "CapEff": f"{user.capabilities:016x}",
        "CapBnd": f"{privileges.capabilities:016x}",
        "CapAmb": f"{0:016x}",
        "NoNewPrivs": str(int(not privileges.may_escalate)),
        "Seccomp": "2" if privileges.has_seccomp else "0",
        "Seccomp_filters": str(int(privileges.has_seccomp)),
    }
    if cpus is not None:
        lines["Cpus_allowed_list"] = f"0-{max(cpus - 1, 0)}"
    return "".join(f"{name}:\t{text}\n" for name, text in lines.items())


def id_range(uid: str, host_users: bool | None) -> tuple[int, int, int]:
    """Return the first user of a pod, its user on the node, and how many there are: with a user namespace of
    its own, a pod has other users than the node."""
    if host_users is not False:
        return _ALL_USERS
    return 0, _NAMESPACE_SIZE * (1 + crc32(uid.encode()) % _MOST_NAMESPACES), _NAMESPACE_SIZE


def kernel_files(
    user: User, shares: Shares, sysctls: Iterable[Sysctl], id_map: Iterable[int] = _ALL_USERS
) -> dict[str, File]:
    """Return the files of /proc and /sys, by their paths from the root."""
    id_map = [*id_map]
    status = _status(user, shares.cpus)
    texts: dict[str, str] = {
        **{f"{ROOT}/{name}": text for name, text in shares.limits.files().items()},
        **{f"proc/sys/{_sysctl_path(one.name)}": f"{one.value}\n" for one in sysctls},
    }
    for process in ("1", "self"):
        texts[f"proc/{process}/status"] = status
        texts[f"proc/{process}/oom_score_adj"] = f"{shares.oom_score_adj}\n"
        for name in ("uid_map", "gid_map"):
            texts[f"proc/{process}/{name}"] = "".join(f"{number:10} " for number in id_map).rstrip() + "\n"
        texts[f"proc/{process}/cgroup"] = "0::/\n"
    return {path: File(text) for path, text in texts.items()}


def normalize_sysctl(name: str) -> str:
    """Return a name with dots as separators: one whose first separator is a slash has dots within."""
    first = next((char for char in name if char in "./"), ".")
    return name if first == "." else name.translate(_SWAPPED)


def _sysctl_path(name: str) -> str:
    return normalize_sysctl(name).translate(_SWAPPED)
