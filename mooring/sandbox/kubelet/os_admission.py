"""Pods that a kubelet rejects because of the operating system of its node."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.kubelet.admission import Refusal
from mooring.sandbox.programs.kernel import normalize_sysctl
from mooring.sandbox.programs.specs import PodRun

_SAFE_SYSCTLS: Final = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
    )
)


def refuse_system(run: PodRun) -> Refusal | None:
    """Return why a Linux node rejects a pod, or None."""
    spec = run.spec
    sysctls = () if spec.security_context is None else spec.security_context.sysctls
    for sysctl in sysctls:
        name = normalize_sysctl(sysctl.name)
        if name not in _SAFE_SYSCTLS:
            return Refusal("SysctlForbidden", f'forbidden sysctl: "{name}" not allowlisted')
    if spec.os is not None and spec.os.name not in ("", "linux"):
        return Refusal("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    return None
