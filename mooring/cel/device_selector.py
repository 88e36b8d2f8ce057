"""Selectors of devices: expressions over the variable `device`, what they may be, and what they may cost."""

from __future__ import annotations

from typing import Final, NamedTuple

from mooring.cel.cel_errors import CelCompileError
from mooring.cel.checker import Checked, Environment, check_expression
from mooring.cel.estimate import Path, estimate_cost
from mooring.cel.types import ANY, BOOL, STRING, Type, full_name, map_of

COST_LIMIT: Final = 1_000_000

_DEVICE: Final = Type("kubernetes.DRADevice")
_QUANTITY: Final = Type("kubernetes.Quantity")
_ENVIRONMENT: Final = Environment(
    variables={"device": _DEVICE},
    fields={
        _DEVICE.name: {
            "driver": STRING,
            "attributes": map_of(STRING, map_of(STRING, ANY)),
            "capacity": map_of(STRING, map_of(STRING, _QUANTITY)),
            "allowMultipleAllocations": BOOL,
        }
    },
    binds=True,
)


def check_selector(expression: str) -> Checked:
    """Check a selector; a CelCompileError has the message of kube-apiserver."""
    try:
        checked = check_expression(expression, _ENVIRONMENT)
    except CelCompileError as error:
        raise CelCompileError(f"compilation failed: {error}") from None
    if checked.result not in (BOOL, ANY):
        raise CelCompileError(f"must evaluate to bool or the unknown type, not {full_name(checked.result)}")
    return checked


class _Shape(NamedTuple):
    """How large a part of a device can be, and what it consists of."""

    size: int
    fields: dict[str, _Shape] = {}
    key: _Shape | None = None
    value: _Shape | None = None


_LONGEST_NAME: Final = _Shape(32)
_LONGEST_DOMAIN: Final = _Shape(63)
_ATTRIBUTE: Final = _Shape(64)
_MOST_ENTRIES: Final = 32


def _by_domain(value: _Shape) -> _Shape:
    inner = _Shape(_MOST_ENTRIES, key=_LONGEST_NAME, value=value)
    return _Shape(_MOST_ENTRIES, key=_LONGEST_DOMAIN, value=inner)


_SHAPES: Final = {
    "device": _Shape(
        0,
        fields={
            "driver": _Shape(63),
            "attributes": _by_domain(_ATTRIBUTE),
            "capacity": _by_domain(_Shape(0)),
            "allowMultipleAllocations": _Shape(1),
        },
    )
}


def _size_of(path: Path) -> int | None:
    """Return the largest size of a part of a device; None if it is not known."""
    shape = _SHAPES.get(path[0])
    for step in path[1:]:
        if shape is None:
            return None
        if step in ("@items", "@values"):
            shape = shape.value
        elif step == "@keys":
            shape = shape.key
        elif shape.value is _ATTRIBUTE:  # whatever its name
            shape = _ATTRIBUTE
        else:
            shape = shape.fields.get(step)
    return None if shape is None else shape.size


def estimate_selector(checked: Checked) -> int:
    """Return the most that a selector can cost, whatever the device."""
    return estimate_cost(checked, _size_of)
