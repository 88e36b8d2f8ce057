"""Warnings about containers: variables, resources and ports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.warnings.texts import whole_bytes

Placed = list[tuple[str, Tree]]
"""Containers or ports with their paths."""


def placed_containers(path: str, spec: Tree) -> Placed:
    """Return all containers of a pod with their paths."""
    return [
        (f"{path}.{member}[{index}]", container)
        for member in ("initContainers", "containers", "ephemeralContainers")
        for index, container in enumerate(spec.get(member) or ())
    ]


def container_warnings(path: str, container: Tree, annotations_path: str, annotations: Tree) -> Iterator[str]:
    seccomp = f"container.seccomp.security.alpha.kubernetes.io/{container['name']}"
    if seccomp in annotations and not dig(container, "securityContext", "seccompProfile"):
        instead = 'non-functional in v1.27+; use the "seccompProfile" field instead'
        yield f"{annotations_path}[{seccomp}]: {instead}"
    resources = container.get("resources") or {}
    for name in ("memory", "ephemeral-storage"):
        for member in ("limits", "requests"):
            yield from whole_bytes(f"{path}.resources.{member}", resources.get(member), name)
    yield from _hidden_variables(path, container.get("env") or ())


def _hidden_variables(path: str, variables: Iterable[Tree]) -> Iterator[str]:
    """Warn about variables that replace an earlier one of their name without using its value."""
    names: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable["name"], variable.get("value", "")
        reference = f"$({name})"
        if name in names and (variable.get("valueFrom") or value == reference or reference not in value):
            yield (
                f'{path}.env[{index}]: hides previous definition of "{name}", '
                "which may be dropped when using apply"
            )
        names.add(name)


def port_warnings(containers: Placed) -> Iterator[str]:
    """Warn about ports of the containers of a pod that collide."""
    ports = [
        (f"{path}.ports[{index}]", port)
        for path, container in containers
        for index, port in enumerate(container.get("ports") or ())
    ]
    by_number: dict[tuple[int, str], Placed] = {}
    for path, port in ports:
        if port.get("hostIP") and not port.get("hostPort"):
            yield f"{path}: hostIP set without hostPort: {_as_go_prints(port)}"
        same = by_number.setdefault((port.get("containerPort", 0), port.get("protocol", "TCP")), [])
        for other_path, other in same:
            problem = _collision(port, other)
            if problem:
                yield f"{path}: {problem} port definition with {other_path}"
        same.append((path, port))
    by_name: dict[str, str] = {}
    for path, port in ports:
        name = port.get("name")
        if name and by_name.setdefault(name, path) != path:
            first = by_name[name]
            yield (
                f'{path}: duplicate port name "{name}" with {first}, services and probes that select ports '
                f"by name will use {first}"
            )


def _collision(port: Tree, other: Tree) -> str:
    """Name how two ports of one number and protocol collide; empty if they do not."""
    ips = port.get("hostIP", ""), other.get("hostIP", "")
    numbers = port.get("hostPort", 0), other.get("hostPort", 0)
    if ips[0] == ips[1] and numbers[0] == numbers[1]:
        return "duplicate"
    if 0 in numbers:
        return "overlapping"
    return "dangerously ambiguous" if numbers[0] == numbers[1] and "" in ips else ""


def _as_go_prints(port: Tree) -> str:
    return (
        f"{{Name:{port.get('name', '')} HostPort:0 ContainerPort:{port.get('containerPort', 0)} "
        f"Protocol:{port.get('protocol', 'TCP')} HostIP:{port['hostIP']}}}"
    )
