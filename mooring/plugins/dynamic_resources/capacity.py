"""Consumable capacity: how much of a device a request takes, and whether that much is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mooring.api import quantity
from mooring.api.devices import CapacityRange, CapacityRequestPolicy, DeviceCapacity
from mooring.api.meta import Quantity
from mooring.api.quantity_texts import canonical, written

Amounts = Mapping[str, int]  # by capacity name, in nano
Requested = Mapping[str, tuple[int, str]]  # in nano, and as written

NOTHING: Amounts = {}


class Amount(NamedTuple):
    nano: int
    text: str


def consumption(capacity: Mapping[str, DeviceCapacity], requested: Requested) -> dict[str, Amount]:
    """What a request takes of each capacity of a device."""
    return {name: _consumed(each, requested.get(name)) for name, each in capacity.items()}


def fits(
    capacity: Mapping[str, DeviceCapacity], requested: Requested, allocated: Amounts, allocating: Amounts
) -> bool:
    """Whether a device has enough left: `allocated` is held by others, `allocating` by this search."""
    if not requested.keys() <= capacity.keys():
        return False
    for name, each in capacity.items():
        amount = _consumed(each, requested.get(name)).nano
        if _violates(amount, each.request_policy):
            return False
        if allocated.get(name, 0) + amount + allocating.get(name, 0) > quantity.parse(each.value):
            return False
    return True


def _amount(raw: Quantity) -> Amount:
    return Amount(quantity.parse(raw), canonical(raw))


def _consumed(capacity: DeviceCapacity, requested: tuple[int, str] | None) -> Amount:
    policy = capacity.request_policy
    if requested is None:
        default = None if policy is None else policy.default
        return _amount(capacity.value if default is None else default)
    nano, text = requested
    if policy is not None:
        if policy.valid_range is not None and policy.valid_range.min is not None:
            return _rounded_up(nano, text, policy.valid_range)
        for value in policy.valid_values:
            if nano <= quantity.parse(value):
                return _amount(value)
    return Amount(nano, canonical(text))


def _rounded_up(nano: int, text: str, valid: CapacityRange) -> Amount:
    assert valid.min is not None
    if nano < quantity.parse(valid.min):
        return _amount(valid.min)
    if valid.step is None:
        return Amount(nano, canonical(text))
    lowest, step = quantity.to_value(valid.min), quantity.to_value(valid.step)
    whole = lowest + -(-(quantity.value(nano) - lowest) // step) * step
    return Amount(whole * quantity.NANO, written(whole * quantity.NANO, "i"))


def _violates(nano: int, policy: CapacityRequestPolicy | None) -> bool:
    if policy is None or (policy.default is not None and nano == quantity.parse(policy.default)):
        return False
    valid = policy.valid_range
    if valid is not None:
        if valid.max is not None and nano > quantity.parse(valid.max):
            return True
        if valid.step is None:
            return False
        lowest = 0 if valid.min is None else quantity.to_value(valid.min)
        return (quantity.value(nano) - lowest) % quantity.to_value(valid.step) != 0
    return bool(policy.valid_values) and all(nano != quantity.parse(value) for value in policy.valid_values)
