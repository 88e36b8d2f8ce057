"""CEL selectors: compiled once, evaluated once for each distinct input until the device changes.

Most selectors look at a few attributes by name. Devices that have these in common, whatever else differs (as
serial numbers do), share the answer.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from mooring.api.devices import Device, DeviceAttribute
from mooring.cel import CelCompileError, CelError, DefaultMap, Program, Quantity, Semver, compile_expression
from mooring.cel.counting import CountingProgram
from mooring.cel.device_selector import COST_LIMIT, check_selector, estimate_selector
from mooring.cel.semver import is_semver
from mooring.cel.syntax import Ident, Index, Literal, Node, Select, parse, parts
from mooring.cel.values import native_bool

_CERTAIN = COST_LIMIT // 10
"""Up to here an estimate is certainly not exceeded: some of cel-go's are a little low."""

_encode = msgspec.msgpack.Encoder().encode

Path = tuple[str, str, str]  # group, domain and name

Verdict = bool | str
"""Whether a selector matches; a text says why it cannot be evaluated."""


class SelectorInput:
    """What selectors see of a device; devices that look the same share it."""

    __slots__ = ("_variables", "device", "driver", "is_sound", "verdicts")

    def __init__(self, driver: str, device: Device) -> None:
        self.driver = driver
        self.device = device
        self.verdicts: dict[str, Verdict] = {}
        self._variables: dict[str, Any] | str | None = None
        # Whether all attributes can be used, without which no selector can be evaluated.
        self.is_sound = all(_is_sound(attribute) for attribute in device.attributes.values())

    def variables(self) -> dict[str, Any] | str:
        """The variable `device`, or why the device's attributes cannot be used."""
        if self._variables is None:
            try:
                self._variables = {"device": _variable(self.driver, self.device)}
            except CelError as error:
                self._variables = str(error)
        return self._variables

    def read(self, path: Path) -> Hashable:
        """What a selector finds at a path; None where there is nothing."""
        kind, domain, name = path
        if kind == "driver":
            return self.driver
        if kind == "allowMultipleAllocations":
            return bool(self.device.allow_multiple_allocations)
        values: Mapping[str, Any] = self.device.attributes if kind == "attributes" else self.device.capacity
        attribute = values.get(f"{domain}/{name}")
        if attribute is None and domain == self.driver:
            attribute = values.get(name)
        return None if attribute is None else attribute.value


def _is_sound(attribute: DeviceAttribute) -> bool:
    value = attribute.value
    return value is not None and (value[0] != "version" or _is_version(value[1]))


@lru_cache(maxsize=4096)
def _is_version(text: str) -> bool:
    return is_semver(text)


def _variable(driver: str, device: Device) -> dict[str, Any]:
    attributes, capacity = DefaultMap(), DefaultMap()
    for name, attribute in device.attributes.items():
        domain, identifier = split_name(name, driver)
        attributes.setdefault(domain, {})[identifier] = _attribute_value(name, attribute)
    for name, each in device.capacity.items():
        domain, identifier = split_name(name, driver)
        capacity.setdefault(domain, {})[identifier] = Quantity.parse(str(each.value))
    return {
        "driver": driver,
        "allowMultipleAllocations": bool(device.allow_multiple_allocations),
        "attributes": attributes,
        "capacity": capacity,
    }


def split_name(name: str, driver: str) -> tuple[str, str]:
    """The domain and the identifier; names without a domain belong to the driver's."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _attribute_value(name: str, attribute: DeviceAttribute) -> Any:
    kind_and_value = attribute.value
    if kind_and_value is None:
        raise CelError(f"attribute {name}: unsupported attribute value")
    kind, value = kind_and_value
    if kind != "version":
        return value
    try:
        return Semver.parse(value)
    except CelError as error:
        raise CelError(f"attribute {name}: parse semantic version: {error}") from None


class Selectors:
    """All selectors in use, and the inputs of all devices."""

    LIMIT = 65_536

    def __init__(self) -> None:
        self._programs: dict[str, _Selector | str] = {}
        self._inputs: dict[bytes, SelectorInput] = {}

    def input(self, driver: str, device: Device) -> SelectorInput:
        key = _encode((driver, device.attributes, device.capacity, device.allow_multiple_allocations))
        selector_input = self._inputs.get(key)
        if selector_input is None:
            if len(self._inputs) > 4 * self.LIMIT:
                self._inputs.clear()
            selector_input = self._inputs[key] = SelectorInput(driver, device)
        return selector_input

    def matches(self, expression: str, device: SelectorInput) -> Verdict:
        verdict = device.verdicts.get(expression)
        if verdict is None:
            verdict = device.verdicts[expression] = self._evaluate(expression, device)
        return verdict

    def all_match(self, expressions: tuple[str, ...], device: SelectorInput) -> tuple[int, Verdict]:
        """Whether all of them match, and which one decided."""
        for i, expression in enumerate(expressions):
            verdict = self.matches(expression, device)
            if verdict is not True:
                return i, verdict
        return 0, True

    def _evaluate(self, expression: str, device: SelectorInput) -> Verdict:
        program = self._programs.get(expression)
        if program is None:
            program = self._programs[expression] = _compiled(expression)
        if isinstance(program, str):
            return f"CEL compile error: {program}"
        return program.evaluate(device)


class _Selector:
    """A compiled selector with its answers by what it reads."""

    __slots__ = ("_counting", "_known", "_paths", "_program")
    LIMIT = 65_536

    def __init__(self, expression: str) -> None:
        checked = check_selector(expression)
        self._program: Program = compile_expression(expression, ["device"])
        # An API server only accepts selectors that cannot exceed the limit, so cost is rarely counted.
        counting = CountingProgram(checked)
        self._counting = counting if estimate_selector(checked) > _CERTAIN else None
        self._paths = paths_read(parse(expression))
        self._known: dict[Hashable, Verdict] = {}

    def evaluate(self, device: SelectorInput) -> Verdict:
        paths = self._paths
        if paths is None or not device.is_sound:
            return self._run(device)
        key: Hashable = device.read(paths[0]) if len(paths) == 1 else tuple(map(device.read, paths))
        verdict = self._known.get(key)
        if verdict is None:
            if len(self._known) >= self.LIMIT:
                self._known.clear()
            verdict = self._known[key] = self._run(device)
        return verdict

    def _run(self, device: SelectorInput) -> Verdict:
        variables = device.variables()
        if isinstance(variables, str):
            return f"CEL runtime error: {variables}"
        try:
            if self._counting is not None:
                return native_bool(self._counting.evaluate(variables, COST_LIMIT)[0])
            return native_bool(self._program.evaluate(variables))
        except CelError as error:
            return f"CEL runtime error: {error}"


def _compiled(expression: str) -> _Selector | str:
    try:
        return _Selector(expression)
    except CelCompileError as error:
        return str(error)
    except CelError as error:  # of a constant
        return f"program instantiation failed: {error}"


# ---- what a selector reads


def paths_read(node: Node) -> tuple[Path, ...] | None:
    """The attributes and capacities that an expression names; None where it may read any."""
    paths: dict[Path, None] = {}
    return tuple(paths) if _collect(node, paths) and paths else None


def _collect(node: Node, paths: dict[Path, None]) -> bool:
    """Add what is read below a node; whether all of it is known."""
    path = _path(node)
    if path is not None:
        paths[path] = None
        return True
    if isinstance(node, Ident):
        return node.name != "device"
    if isinstance(node, Literal):
        return True
    return all(_collect(part, paths) for part in parts(node))


def _path(node: Node) -> Path | None:
    """`device.driver`, or `device.attributes["domain"].name`; None for anything else."""
    name = _step(node)
    if name is None or not isinstance(node, Select | Index):
        return None
    if node.operand == Ident("device"):
        return (name, "", "") if name in ("driver", "allowMultipleAllocations") else None
    domain = _step(node.operand)
    if domain is None or not isinstance(node.operand, Select | Index):
        return None
    group = node.operand.operand
    if not isinstance(group, Select) or group.operand != Ident("device"):
        return None
    return (group.field, domain, name) if group.field in ("attributes", "capacity") else None


def _step(node: Node) -> str | None:
    """The field or constant key that a node selects."""
    if isinstance(node, Select):
        return node.field
    if isinstance(node, Index) and isinstance(node.key, Literal) and isinstance(node.key.value, str):
        return node.key.value
    return None
