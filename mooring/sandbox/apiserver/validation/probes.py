"""Probes and lifecycle hooks of containers."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.errors import forbidden_value, invalid_value, required
from mooring.sandbox.apiserver.kinds.facts import choices
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.fields import Causes, nonnegatives, optional_choice, port_or_name
from mooring.sandbox.apiserver.validation.names import header_name

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_COUNTS: Final = (
    "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold",
)  # fmt: skip


def probes(path: str, container: Tree, grace_period: int | None) -> Causes:
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        at = f"{path}.{name}"
        yield from _handler(at, probe, grace_period)
        yield from nonnegatives(at, probe, *_COUNTS)
        seconds = probe.get("terminationGracePeriodSeconds")
        if seconds is not None and seconds <= 0:
            yield invalid_value(f"{at}.terminationGracePeriodSeconds", seconds, "must be greater than 0")
        if name == "readinessProbe":
            if seconds is not None:
                why = "must not be set for readinessProbes"
                yield invalid_value(f"{at}.terminationGracePeriodSeconds", seconds, why)
        elif probe.get("successThreshold") != 1:
            yield invalid_value(f"{at}.successThreshold", probe.get("successThreshold", 0), "must be 1")


def lifecycle(path: str, container: Tree, grace_period: int | None) -> Causes:
    hooks: Tree = container.get("lifecycle") or {}
    for name in ("postStart", "preStop"):
        if hooks.get(name) is not None:
            yield from _handler(f"{path}.lifecycle.{name}", hooks[name], grace_period)


def _handler(path: str, handler: Tree, grace_period: int | None) -> Causes:
    kinds = [name for name in _HANDLERS if handler.get(name) is not None]
    if not kinds:
        yield required(path, "must specify a handler type")
        return
    yield from _action(f"{path}.{kinds[0]}", kinds[0], handler[kinds[0]], grace_period)
    for name in kinds[1:]:
        yield forbidden_value(f"{path}.{name}", "may not specify more than 1 handler type")


def _action(path: str, name: str, action: Tree, grace_period: int | None) -> Causes:
    if name == "exec":
        if not action.get("command"):
            yield required(f"{path}.command")
    elif name == "sleep":
        seconds = action.get("seconds", 0)
        if grace_period is not None and not 0 <= seconds <= grace_period:
            why = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_period})"
            yield invalid_value(path, seconds, why)
    else:
        yield from port_or_name(f"{path}.port", action.get("port", 0))
        if name == "httpGet":
            yield from _http(path, action)


def _http(path: str, action: Tree) -> Causes:
    schemes = choices("core_v1.HTTPGetAction.scheme")
    yield from optional_choice(f"{path}.scheme", action.get("scheme", ""), schemes)
    for header in action.get("httpHeaders") or ():
        for problem in header_name(header.get("name", "")):
            yield invalid_value(f"{path}.httpHeaders", header.get("name", ""), problem)
