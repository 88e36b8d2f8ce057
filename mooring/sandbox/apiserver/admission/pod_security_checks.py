"""The checks of the Pod Security Standards, as of the latest version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from mooring.sandbox.apiserver.objects import Tree, dig


class Violation(NamedTuple):
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


Check = Callable[[Tree, Tree], Violation | None]
"""Takes the metadata and the spec of a pod."""

_CAPABILITIES: Final = frozenset(
    ("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
     "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT")
)  # fmt: skip
_SYSCTLS: Final = frozenset(
    ("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
     "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports",
     "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
     "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
)  # fmt: skip
_VOLUMES: Final = frozenset(
    ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim",
     "projected", "secret")
)  # fmt: skip
_SELINUX_TYPES: Final = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_PROFILES: Final = ("RuntimeDefault", "Localhost")
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def _containers(spec: Tree) -> Iterator[Tree]:
    for name in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(name) or ()


def _setting(owner: Tree, *path: str) -> Any:
    """Return a setting of the security context of a pod's spec or of a container."""
    return dig(owner, "securityContext", *path)


def _quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def _many(word: str, items: Iterable[object], plural: str = "") -> str:
    return word if len(list(items)) == 1 else plural or f"{word}s"


def _named(containers: list[str]) -> str:
    return f"{_many('container', containers)} {_quoted(containers)}"


def _setters(spec: Tree, is_bad: Callable[[Tree], bool]) -> str:
    """Name the pod and the containers whose security contexts are bad; "" for none."""
    bad = [container["name"] for container in _containers(spec) if is_bad(container)]
    setters = [*(["pod"] if is_bad(spec) else []), *([_named(bad)] if bad else [])]
    return " and ".join(setters)


def _is_windows(spec: Tree) -> bool:
    return bool(dig(spec, "os", "name") == "windows")


def _has_own_users(spec: Tree) -> bool:
    return spec.get("hostUsers") is False


# ---- baseline -------------------------------------------------------------------------------------


def _other_profiles(spec: Tree, field: str) -> tuple[str, list[str]]:
    """Name who sets a profile of another type than allowed, and return those types."""

    def other(owner: Tree) -> str:
        profile: str = _setting(owner, field, "type") or ""
        return "" if profile in _PROFILES else profile

    types = {other(owner) for owner in (spec, *_containers(spec))} - {""}
    return _setters(spec, lambda owner: bool(other(owner))), sorted(types)


def _app_armor(metadata: Tree, spec: Tree) -> Violation | None:
    named, types = _other_profiles(spec, "appArmorProfile")
    setters = [named] if named else []
    annotations = sorted(
        f'{key}="{value}"'
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(_APPARMOR)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    if annotations:
        setters.append(_many("annotation", annotations))
    if not setters:
        return None
    shown = [*types, *annotations]
    detail = f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(shown)}"
    return Violation(_many("forbidden AppArmor profile", shown), detail)


def _added(spec: Tree, allowed: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the containers that add other capabilities, and those capabilities."""
    bad: list[str] = []
    others: set[str] = set()
    for container in _containers(spec):
        added = set(_setting(container, "capabilities", "add") or ()) - set(allowed)
        if added:
            bad.append(container["name"])
            others |= added
    return bad, sorted(others)


def _baseline_capabilities(metadata: Tree, spec: Tree) -> Violation | None:
    bad, added = _added(spec, _CAPABILITIES)
    if not bad:
        return None
    detail = f"{_named(bad)} must not include {_quoted(added)} in securityContext.capabilities.add"
    return Violation("non-default capabilities", detail)


def _host_namespaces(metadata: Tree, spec: Tree) -> Violation | None:
    bad = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return Violation("host namespaces", ", ".join(bad)) if bad else None


def _host_paths(metadata: Tree, spec: Tree) -> Violation | None:
    bad = [one["name"] for one in spec.get("volumes") or () if one.get("hostPath") is not None]
    return Violation("hostPath volumes", f"{_many('volume', bad)} {_quoted(bad)}") if bad else None


def _host_ports(metadata: Tree, spec: Tree) -> Violation | None:
    ports = {
        container["name"]: [
            str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")
        ]
        for container in _containers(spec)
    }
    bad = [name for name, numbers in ports.items() if numbers]
    if not bad:
        return None
    numbers = sorted({number for name in bad for number in ports[name]})
    detail = f"{_named(bad)} {_many('uses', bad, 'use')} {_many('hostPort', numbers)} {', '.join(numbers)}"
    return Violation("hostPort", detail)


def _probed_hosts(metadata: Tree, spec: Tree) -> Violation | None:
    hosts: dict[str, set[str]] = {}
    for container in _containers(spec):
        handlers = [container.get(name) for name in _PROBES]
        handlers += [dig(container, "lifecycle", name) for name in ("postStart", "preStop")]
        for handler in filter(None, handlers):
            for action in ("httpGet", "tcpSocket"):
                if host := dig(handler, action, "host"):
                    hosts.setdefault(container["name"], set()).add(host)
    if not hosts:
        return None
    bad, shown = sorted(hosts), sorted(set().union(*hosts.values()))
    what = _many("probe or lifecycle host", shown)
    detail = f"{_named(bad)} {_many('uses', bad, 'use')} {what} {_quoted(shown)}"
    return Violation("probe or lifecycle host", detail)


def _privileged(metadata: Tree, spec: Tree) -> Violation | None:
    bad = [one["name"] for one in _containers(spec) if _setting(one, "privileged")]
    return (
        Violation("privileged", f"{_named(bad)} must not set securityContext.privileged=true")
        if bad
        else None
    )


def _proc_mount(metadata: Tree, spec: Tree) -> Violation | None:
    types = {one["name"]: _setting(one, "procMount") or "Default" for one in _containers(spec)}
    bad = [name for name, type in types.items() if type != "Default"]
    if not bad:
        return None
    shown = sorted({types[name] for name in bad})
    return Violation("procMount", f"{_named(bad)} must not set securityContext.procMount to {_quoted(shown)}")


def _baseline_proc_mount(metadata: Tree, spec: Tree) -> Violation | None:
    return None if _has_own_users(spec) else _proc_mount(metadata, spec)


def _se_linux(metadata: Tree, spec: Tree) -> Violation | None:
    options = [
        one for one in (_setting(owner, "seLinuxOptions") for owner in (spec, *_containers(spec))) if one
    ]

    def is_bad(owner: Tree) -> bool:
        one = _setting(owner, "seLinuxOptions") or {}
        return bool(one.get("type", "") not in _SELINUX_TYPES or one.get("user") or one.get("role"))

    setters = _setters(spec, is_bad)
    if not setters:
        return None
    types = sorted({one.get("type", "") for one in options} - set(_SELINUX_TYPES))
    problems = [f"{_many('type', types)} {_quoted(types)}"] if types else []
    problems += [
        f"{name} may not be set" for name in ("user", "role") if any(one.get(name) for one in options)
    ]
    detail = f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(problems)}"
    return Violation("seLinuxOptions", detail)


def _baseline_seccomp(metadata: Tree, spec: Tree) -> Violation | None:
    setters, types = _other_profiles(spec, "seccompProfile")
    detail = f"{setters} must not set securityContext.seccompProfile.type to {_quoted(types)}"
    return Violation("seccompProfile", detail) if setters else None


def _sysctls(metadata: Tree, spec: Tree) -> Violation | None:
    bad = [one["name"] for one in _setting(spec, "sysctls") or () if one["name"] not in _SYSCTLS]
    return Violation("forbidden sysctls", ", ".join(bad)) if bad else None


def _host_process(metadata: Tree, spec: Tree) -> Violation | None:
    setters = _setters(spec, lambda owner: bool(_setting(owner, "windowsOptions", "hostProcess")))
    detail = f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", detail) if setters else None


# ---- restricted -----------------------------------------------------------------------------------


def _escalation(metadata: Tree, spec: Tree) -> Violation | None:
    bad = [one["name"] for one in _containers(spec) if _setting(one, "allowPrivilegeEscalation") is not False]
    if not bad or _is_windows(spec):
        return None
    detail = f"{_named(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def _restricted_capabilities(metadata: Tree, spec: Tree) -> Violation | None:
    if _is_windows(spec):
        return None
    details = []
    keeping = [
        one["name"] for one in _containers(spec) if "ALL" not in (_setting(one, "capabilities", "drop") or ())
    ]
    if keeping:
        details.append(f'{_named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    bad, added = _added(spec, ("NET_BIND_SERVICE",))
    if bad:
        details.append(f"{_named(bad)} must not include {_quoted(added)} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _restricted_volumes(metadata: Tree, spec: Tree) -> Violation | None:
    kinds = {
        volume["name"]: next(
            (key for key, value in volume.items() if key != "name" and value is not None), ""
        )
        for volume in spec.get("volumes") or ()
    }
    bad = [name for name, kind in kinds.items() if kind not in _VOLUMES]
    if not bad:
        return None
    types = sorted({kinds[name] or "unknown" for name in bad})
    what = _many("restricted volume type", types)
    detail = f"{_many('volume', bad)} {_quoted(bad)} {_many('uses', bad, 'use')} {what} {_quoted(types)}"
    return Violation("restricted volume types", detail)


def _non_root(metadata: Tree, spec: Tree) -> Violation | None:
    if _has_own_users(spec):
        return None
    setters = _setters(spec, lambda owner: _setting(owner, "runAsNonRoot") is False)
    if setters:
        return Violation("runAsNonRoot != true", f"{setters} must not set securityContext.runAsNonRoot=false")
    bad = [one["name"] for one in _containers(spec) if _setting(one, "runAsNonRoot") is None]
    if not bad or _setting(spec, "runAsNonRoot"):
        return None
    detail = f"pod or {_named(bad)} must set securityContext.runAsNonRoot=true"
    return Violation("runAsNonRoot != true", detail)


def _run_as_user(metadata: Tree, spec: Tree) -> Violation | None:
    setters = _setters(spec, lambda owner: _setting(owner, "runAsUser") == 0)
    if not setters or _has_own_users(spec):
        return None
    return Violation("runAsUser=0", f"{setters} must not set runAsUser=0")


def _restricted_seccomp(metadata: Tree, spec: Tree) -> Violation | None:
    if _is_windows(spec):
        return None
    explicit = _baseline_seccomp(metadata, spec)
    if explicit is not None:
        return explicit
    bad = [one["name"] for one in _containers(spec) if _setting(one, "seccompProfile") is None]
    if not bad or _setting(spec, "seccompProfile") is not None:
        return None
    what = 'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {_named(bad)} must set {what}")


CHECKS: Final[dict[str, tuple[Check, ...]]] = {
    "privileged": (),
    "baseline": (
        _app_armor,
        _baseline_capabilities,
        _host_namespaces,
        _host_paths,
        _host_ports,
        _probed_hosts,
        _privileged,
        _baseline_proc_mount,
        _se_linux,
        _baseline_seccomp,
        _sysctls,
        _host_process,
    ),
    "restricted": (
        _app_armor,
        _host_namespaces,
        _host_ports,
        _probed_hosts,
        _privileged,
        _se_linux,
        _sysctls,
        _host_process,
        _escalation,
        _restricted_capabilities,
        _proc_mount,
        _restricted_volumes,
        _non_root,
        _run_as_user,
        _restricted_seccomp,
    ),
}
"""By level, in the order in which violations are reported."""


def violations(level: str, metadata: Tree, spec: Tree) -> str:
    """Return what a pod violates, or ""."""
    found = (check(metadata, spec) for check in CHECKS[level])
    return ", ".join(str(one) for one in found if one is not None)
