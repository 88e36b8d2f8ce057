"""Constraints of a claim: attributes that its devices must have in common, or not."""

from __future__ import annotations

from typing import Any

from mooring.api.devices import DeviceConstraint
from mooring.plugins.dynamic_resources.inventory import DeviceInfo
from mooring.plugins.dynamic_resources.plan import Alternative

Value = tuple[str, Any]


def attribute(device: DeviceInfo, name: str) -> Value | None:
    """An attribute by its full name; one of the driver's own may be published without the domain."""
    attributes = device.device.attributes
    value = attributes.get(name)
    if value is None:
        domain, slash, identifier = name.partition("/")
        if slash and domain == device.id[0]:
            value = attributes.get(identifier)
    return None if value is None else value.value


class Constraint:
    """Base of both kinds: which requests it is about, and how many devices it has let pass."""

    def __init__(self, name: str, requests: list[str]) -> None:
        self._name = name
        self._requests = frozenset(requests)
        self._count = 0

    def _applies(self, to: Alternative) -> bool:
        requests = self._requests
        return not requests or to.request in requests or (bool(to.parent) and to.result_name in requests)

    def add(self, to: Alternative, device: DeviceInfo) -> bool:
        """Let a device pass and remember it, or refuse it."""
        if not self._applies(to):
            return True
        value = attribute(device, self._name)
        if value is None or (self._count and not self._accepts(value)):
            return False
        self._remember(to, value)
        self._count += 1
        return True

    def remove(self, to: Alternative) -> None:
        if self._applies(to):
            self._forget(to)
            self._count -= 1

    def _accepts(self, value: Value) -> bool:
        raise NotImplementedError

    def _remember(self, to: Alternative, value: Value) -> None:
        raise NotImplementedError

    def _forget(self, to: Alternative) -> None:
        """Nothing to do where only the number of devices matters."""


class MatchAttribute(Constraint):
    """All devices have the value of the first one."""

    _value: Value | None = None

    def _accepts(self, value: Value) -> bool:
        return value == self._value

    def _remember(self, to: Alternative, value: Value) -> None:
        if not self._count:
            self._value = value


class DistinctAttribute(Constraint):
    """No device has a value that is remembered. As in kube-scheduler, one value is remembered for each
    request: the latest, until any device of the request is given back."""

    def __init__(self, name: str, requests: list[str]) -> None:
        super().__init__(name, requests)
        self._values: dict[str, Value] = {}

    def _accepts(self, value: Value) -> bool:
        return value not in self._values.values()

    def _remember(self, to: Alternative, value: Value) -> None:
        self._values[to.request] = value

    def _forget(self, to: Alternative) -> None:
        self._values.pop(to.request, None)


def constraint(spec: DeviceConstraint) -> Constraint | None:
    """The constraint, or None for a kind that is not known."""
    if spec.match_attribute is not None:
        return MatchAttribute(spec.match_attribute, spec.requests)
    if spec.distinct_attribute is not None:
        return DistinctAttribute(spec.distinct_attribute, spec.requests)
    return None
