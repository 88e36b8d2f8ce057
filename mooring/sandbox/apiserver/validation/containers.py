"""The containers of a pod."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

from mooring.sandbox.apiserver.errors import (
    duplicate,
    forbidden_value,
    invalid_value,
    not_found_value,
    required,
)
from mooring.sandbox.apiserver.kinds.facts import choices
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.environment import env_from, environment, volumes_of_files
from mooring.sandbox.apiserver.validation.fields import (
    Causes,
    no_backsteps,
    one_of,
    optional_choice,
    relative_path,
    required_text,
    text,
)
from mooring.sandbox.apiserver.validation.names import dns_label, port_name, port_number
from mooring.sandbox.apiserver.validation.probes import lifecycle, probes
from mooring.sandbox.apiserver.validation.resources import resource_requirements
from mooring.sandbox.apiserver.validation.security import container_security

_PROTOCOLS: Final = choices("core_v1.ContainerPort.protocol")
_PULL_POLICIES: Final = choices("core_v1.Container.imagePullPolicy")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_ONLY_SIDECARS: Final = "may not be set for init containers without restartPolicy=Always"
_PROBES_AND_HOOKS: Final = frozenset({"lifecycle", "livenessProbe", "readinessProbe", "startupProbe"})


class PodParts(NamedTuple):
    """What containers may refer to in their pod."""

    volumes: dict[str, Tree]
    claims: Collection[str]
    grace_period: int | None
    restart_policy: str
    is_pod: bool
    """Whether this is a pod and not a template."""
    host_users: object = None


def containers(path: str, items: Sequence[Tree], parts: PodParts) -> Causes:
    if not items:
        yield required(path)
    names: set[str] = set()
    for index, container in enumerate(items):
        at, name = f"{path}[{index}]", container.get("name", "")
        yield from _container(at, container, parts)
        if name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
        if not _PROBES_AND_HOOKS.isdisjoint(container):
            yield from lifecycle(at, container, parts.grace_period)
            yield from probes(at, container, parts.grace_period)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            yield from _restart_policy(at, container)
    yield from host_port_conflicts(path, items)


def init_containers(path: str, items: Sequence[Tree], regular: Iterable[Tree], parts: PodParts) -> Causes:
    names = {container.get("name", "") for container in regular}
    for index, container in enumerate(items):
        at, name = f"{path}[{index}]", container.get("name", "")
        yield from _container(at, container, parts)
        yield from _restart_policy(at, container)
        if name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
        yield from host_port_conflicts(path, [container])
        if container.get("restartPolicy") == "Always":
            yield from lifecycle(at, container, parts.grace_period)
            yield from probes(at, container, parts.grace_period)
        else:
            for member in sorted(_PROBES_AND_HOOKS):
                if container.get(member) is not None:
                    yield forbidden_value(f"{at}.{member}", _ONLY_SIDECARS)
            yield from _no_restart_on_resize(at, container)


def _no_restart_on_resize(path: str, container: Tree) -> Causes:
    for index, policy in enumerate(container.get("resizePolicy") or ()):
        if policy.get("restartPolicy") == "RestartContainer":
            why = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            yield invalid_value(f"{path}.resizePolicy[{index}].restartPolicy", "RestartContainer", why)


_EPHEMERAL_FORBIDDEN: Final = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe",
    "readinessProbe", "startupProbe", "lifecycle",
)  # fmt: skip


def ephemeral_containers(path: str, items: Sequence[Tree], others: Iterable[Tree], parts: PodParts) -> Causes:
    """Validate ephemeral containers, for debugging a running pod: nothing may depend on them."""
    targets = {container.get("name", "") for container in others}
    names, why = set(targets), "cannot be set for an Ephemeral Container"
    for index, container in enumerate(items):
        at, name = f"{path}[{index}]", container.get("name", "")
        yield from _container(at, container, parts)
        if name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
        target = container.get("targetContainerName", "")
        if target and target not in targets:
            yield not_found_value(f"{at}.targetContainerName", target)
        for member in _EPHEMERAL_FORBIDDEN:
            if container.get(member):
                yield forbidden_value(f"{at}.{member}", why)
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            for member in ("subPath", "subPathExpr"):
                if mount.get(member):
                    yield forbidden_value(f"{at}.volumeMounts[{number}].{member}", why)


def _container(path: str, container: Tree, parts: PodParts) -> Causes:
    """Validate what all kinds of containers share."""
    name, image = container.get("name", ""), container.get("image", "")
    if not name or dns_label(name):
        yield from required_text(f"{path}.name", name, dns_label)
    if not image:
        yield required(f"{path}.image")
    if container.get("terminationMessagePolicy") not in _MESSAGE_POLICIES:
        policy = container.get("terminationMessagePolicy")
        yield from one_of(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    for member, rule in _MEMBERS:
        if container.get(member):
            yield from rule(f"{path}.{member}", container[member])
    if container.get("env"):
        yield from volumes_of_files(f"{path}.env", container["env"], parts.volumes)
    if container.get("volumeMounts") or container.get("volumeDevices"):
        yield from _mounts(path, container, parts.volumes)
    if container.get("imagePullPolicy") not in _PULL_POLICIES:
        yield from one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
    if container.get("resources"):
        yield from resource_requirements(f"{path}.resources", container["resources"], parts.claims)
    if container.get("securityContext"):
        at = f"{path}.securityContext"
        yield from container_security(at, container["securityContext"], parts.host_users)
    if container.get("resizePolicy"):
        yield from _resize_policy(f"{path}.resizePolicy", container["resizePolicy"], parts)
    if parts.is_pod and image != image.strip():
        yield invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace")


# ---- ports ----------------------------------------------------------------------------------------


def _ports(path: str, ports: Sequence[Tree]) -> Causes:
    names: set[str] = set()
    for index, port in enumerate(ports):
        at, name = f"{path}[{index}]", port.get("name", "")
        if name:
            yield from text(f"{at}.name", name, port_name)
            if name in names:
                yield duplicate(f"{at}.name", name)
            names.add(name)
        number, host = port.get("containerPort", 0), port.get("hostPort", 0)
        if not number:
            yield required(f"{at}.containerPort")
        for member, value in (("containerPort", number), ("hostPort", host)):
            for problem in port_number(value) if value else ():
                yield invalid_value(f"{at}.{member}", value, problem)
        if port.get("protocol") not in _PROTOCOLS:
            yield from one_of(f"{at}.protocol", port.get("protocol"), _PROTOCOLS)


_MEMBERS: Final[tuple[tuple[str, Callable[[str, Sequence[Tree]], Causes]], ...]] = (
    ("ports", _ports),
    ("env", environment),
    ("envFrom", env_from),
)
"""Rules of optional members."""


def host_port_conflicts(path: str, items: Iterable[Tree]) -> Causes:
    """Host ports must be unique."""
    seen = set()
    for index, container in enumerate(items):
        for number, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort", 0)
            if not host:
                continue
            used = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{host}"
            if used in seen:
                yield duplicate(f"{path}[{index}].ports[{number}].hostPort", used)
            seen.add(used)


# ---- volumes in containers ------------------------------------------------------------------------


def _mounts(path: str, container: Tree, volumes: dict[str, Tree]) -> Causes:
    mounts, devices = container.get("volumeMounts") or (), container.get("volumeDevices") or ()
    device_paths = {device.get("devicePath", "") for device in devices}
    device_names = {device.get("name", "") for device in devices}
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        at, name, place = f"{path}.volumeMounts[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield required(f"{at}.name")
        if name not in volumes:
            yield not_found_value(f"{at}.name", name)
        if not place:
            yield required(f"{at}.mountPath")
        if place in seen:
            yield invalid_value(f"{at}.mountPath", place, "must be unique")
        seen.add(place)
        if name in device_names:
            yield invalid_value(f"{at}.name", name, "must not already exist in volumeDevices")
        if place in device_paths:
            why = "must not already exist as a path in volumeDevices"
            yield invalid_value(f"{at}.mountPath", place, why)
        yield from _sub_path(f"{path}.volumeMounts", at, mount)
    yield from _devices(f"{path}.volumeDevices", devices, mounts, volumes)


def _sub_path(path: str, at: str, mount: Tree) -> Causes:
    plain, expanded = mount.get("subPath", ""), mount.get("subPathExpr", "")
    if plain:
        yield from relative_path(f"{path}.subPath", plain)
    if expanded:
        if plain:
            why = "subPathExpr and subPath are mutually exclusive"
            yield invalid_value(f"{at}.subPathExpr", expanded, why)
        yield from relative_path(f"{path}.subPathExpr", expanded)


def _devices(path: str, devices: Sequence[Tree], mounts: Sequence[Tree], volumes: dict[str, Tree]) -> Causes:
    names: set[str] = set()
    places: set[str] = set()
    mounted = {mount.get("name", "") for mount in mounts}
    mount_paths = {mount.get("mountPath", "") for mount in mounts}
    for index, device in enumerate(devices):
        at, name, place = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        if not name:
            yield required(f"{at}.name")
        if name in names:
            yield invalid_value(f"{at}.name", name, "must be unique")
        volume = volumes.get(name)
        if volume is None:
            yield not_found_value(f"{at}.name", name)
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid_value(f"{at}.name", name, why)
        if not place:
            yield required(f"{at}.devicePath")
        if place in places:
            yield invalid_value(f"{at}.devicePath", place, "must be unique")
        if any(no_backsteps("", place)):
            yield invalid_value(f"{at}.devicePath", place, "can not contain backsteps ('..')")
        if name in mounted:
            yield invalid_value(f"{at}.name", name, "must not already exist in volumeMounts")
        if place in mount_paths:
            yield invalid_value(f"{at}.devicePath", place, "must not already exist as a path in volumeMounts")
        names.add(name)
        places.add(place)


# ---- policies -------------------------------------------------------------------------------------


def _resize_policy(path: str, policies: Sequence[Tree], parts: PodParts) -> Causes:
    seen = set()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)
        yield from one_of(path, name, ("cpu", "memory"))
        yield from one_of(path, restart, ("NotRequired", "RestartContainer"))
        if parts.restart_policy == "Never" and restart != "NotRequired":
            why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            yield invalid_value(path, restart, why)


def _restart_policy(path: str, container: Tree) -> Causes:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None and rules:
        why = "must specify restartPolicy when restart rules are used"
        yield required(f"{path}.restartPolicy", why)
    yield from optional_choice(f"{path}.restartPolicy", policy, choices("core_v1.PodSpec.restartPolicy"))
