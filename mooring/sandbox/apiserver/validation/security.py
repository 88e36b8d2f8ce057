"""Security contexts of pods and containers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from mooring.sandbox.apiserver.errors import duplicate, invalid_value, not_supported, required
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.fields import Causes, no_backsteps
from mooring.sandbox.apiserver.validation.names import between

_HIGHEST_ID: Final = 2**31 - 1
_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_POLICIES: Final = (
    ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
    ("supplementalGroupsPolicy", ("Merge", "Strict")),
    ("seLinuxChangePolicy", ("Recursive",)),
)
_SYSCTL: Final = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_IS_SYSCTL: Final = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_LONGEST_SYSCTL: Final = 253
_IPC: Final = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
_GO_MEMBERS: Final = (
    "Capabilities", "Privileged", "SELinuxOptions", "WindowsOptions", "RunAsUser", "RunAsGroup",
    "RunAsNonRoot", "ReadOnlyRootFilesystem", "AllowPrivilegeEscalation", "ProcMount", "SeccompProfile",
    "AppArmorProfile",
)  # fmt: skip


def pod_security(path: str, context: Tree, spec: Tree) -> Causes:
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from _id(f"{path}.{name}", context.get(name))
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from _id(f"{path}.supplementalGroups[{index}]", group)
    yield from _sysctls(f"{path}.sysctls", context.get("sysctls") or (), spec)
    for name, supported in _POLICIES:
        if context.get(name) is not None and context[name] not in supported:
            yield not_supported(f"{path}.{name}", context[name], supported)
    yield from _profiles(path, context)


def container_security(path: str, context: Tree, host_users: object) -> Causes:
    """`host_users` is the `hostUsers` of the pod."""
    for name in ("runAsUser", "runAsGroup"):
        yield from _id(f"{path}.{name}", context.get(name))
    mount = context.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        yield not_supported(f"{path}.procMount", mount, ("Default", "Unmasked"))
    elif mount == "Unmasked" and host_users is not False:
        yield invalid_value(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    yield from _profiles(path, context)
    if context.get("allowPrivilegeEscalation") is False:
        never = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            yield invalid_value(path, _in_go(context), f"{never} `privileged` to true")
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            yield invalid_value(path, _in_go(context), f"{never} `capabilities.Add` CAP_SYS_ADMIN")


def _id(path: str, value: int | None) -> Causes:
    if value is not None and not 0 <= value <= _HIGHEST_ID:
        yield invalid_value(path, value, between(0, _HIGHEST_ID))


def _sysctls(path: str, sysctls: Sequence[Tree], spec: Tree) -> Causes:
    names: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        at, name = f"{path}[{index}].name", sysctl.get("name") or ""
        shared = _shared(name.replace("/", "."), spec)
        if not name:
            yield required(at)
        elif len(name) > _LONGEST_SYSCTL or not _IS_SYSCTL.fullmatch(name):
            yield invalid_value(
                at, name, f"must have at most {_LONGEST_SYSCTL} characters and match regex {_SYSCTL}"
            )
        elif name in names:
            yield duplicate(at, name)
        if name and shared:
            yield invalid_value(at, name, f"may not be specified when '{shared}' is true")
        names.add(name)


def _shared(name: str, spec: Tree) -> str:
    """Return the field by which a pod shares the namespace of a sysctl with its node, if it does."""
    if name.startswith("net.") and spec.get("hostNetwork"):
        return "hostNetwork"
    return "hostIPC" if name.startswith(_IPC) and spec.get("hostIPC") else ""


def _profiles(path: str, context: Tree) -> Causes:
    for name, kind in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        if context.get(name) is not None:
            yield from _profile(f"{path}.{name}", context[name], kind)
    user = (context.get("windowsOptions") or {}).get("runAsUserName")
    if user == "":
        yield invalid_value(
            f"{path}.windowsOptions.runAsUserName", "", "runAsUserName cannot be an empty string"
        )


def _profile(path: str, profile: Tree, kind: str) -> Causes:
    type, local, at = profile.get("type") or "", profile.get("localhostProfile"), f"{path}.localhostProfile"
    if type == "Localhost":
        if local is None or (kind == "AppArmor" and not local):
            yield required(at, f"must be set when {kind} type is Localhost")
        elif kind == "seccomp":
            yield from no_backsteps(at, local)
    elif local is not None:
        shown = {"Type": type, "LocalhostProfile": local} if kind == "seccomp" else local
        yield invalid_value(at, shown, f"can only be set when {kind} type is Localhost")
    if not type:
        yield required(f"{path}.type")
    elif type not in _PROFILES:
        yield not_supported(f"{path}.type", type, _PROFILES)


def _in_go(context: Tree) -> Tree:
    """Return a context as messages show it: with the names of Go's fields, and all of them."""
    shown: dict[str, Any] = {name: context.get(name[:1].lower() + name[1:]) for name in _GO_MEMBERS}
    shown["SELinuxOptions"] = context.get("seLinuxOptions")
    capabilities = context.get("capabilities")
    if capabilities is not None:
        shown["Capabilities"] = {"Add": capabilities.get("add"), "Drop": capabilities.get("drop")}
    return shown
