"""Feature gates: kube-scheduler's names, stages, defaults and error texts.

`feature_gates.txt` has a line per gate of v1.36: name, stage, default, whether it is locked, and the gates
that it depends on. The gates in EFFECTIVE change what the scheduler does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

EFFECTIVE = frozenset(
    {
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAPartitionableDevices",
        "DRAPrioritizedList",
        "DRAResourceClaimDeviceStatus",
        "DRASchedulerFilterTimeout",
        "GangScheduling",
        "GenericWorkload",
        "TopologyAwareWorkloadScheduling",
        "WorkloadAwarePreemption",
        "WorkloadWithJob",
    }
)
_ALL_OF_STAGE = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class FeatureGateError(ValueError):
    """A feature gate that cannot be set; the text is kube-scheduler's."""


class FeatureGate(NamedTuple):
    """A gate that kube-scheduler has. The stage is ALPHA, BETA, DEPRECATED or, of a stable feature, GA."""

    name: str
    stage: str
    default: bool
    locked: bool
    dependencies: tuple[str, ...]


@cache
def known_gates() -> Mapping[str, FeatureGate]:
    """All gates by name, in the order of their names."""
    text = (files("mooring.config") / "feature_gates.txt").read_text()
    return {gate.name: gate for gate in _read(text)}


def _read(text: str) -> Iterator[FeatureGate]:
    for line in text.splitlines():
        name, stage, default, locked, *dependencies = line.split()
        yield FeatureGate(name, stage, default == "on", locked == "locked", tuple(dependencies))


def parse_feature_gates(values: Iterable[str]) -> dict[str, bool]:
    """Read the values of `--feature-gates`: `name=bool` pairs, separated by commas."""
    settings: dict[str, bool] = {}
    for pair in (pair.strip() for value in values for pair in value.split(",")):
        if not pair:
            continue
        component, colon, rest = pair.partition(":")
        if colon and component != "kube":
            raise FeatureGateError(f"component not registered: {component}")
        name, equals, text = (rest if colon else pair).partition("=")
        name, text = name.strip(), text.strip()
        if not equals:
            raise FeatureGateError(f"missing bool value for {name}")
        if text not in _TRUE | _FALSE:
            syntax = f'strconv.ParseBool: parsing "{text}": invalid syntax'
            raise FeatureGateError(f"invalid value of {name}={text}, err: {syntax}")
        settings[name] = text in _TRUE
    return settings


class FeatureGates:
    """Which features are enabled, given the gates that were set."""

    def __init__(self, settings: Mapping[str, bool] | None = None) -> None:
        self._enabled = {name: gate.default for name, gate in known_gates().items()}
        self._settings = settings = settings or {}
        _raise([problem for name in sorted(settings) if (problem := _problem(name, settings[name]))])
        for name, value in settings.items():
            for gate in known_gates().values() if name in _ALL_OF_STAGE else ():
                if gate.stage == _ALL_OF_STAGE[name] and not gate.locked:
                    self._enabled[gate.name] = value
        self._enabled.update(settings)
        _raise(list(self._missing_dependencies()))

    def _missing_dependencies(self) -> Iterator[str]:
        for gate in known_gates().values():
            disabled = [name for name in gate.dependencies if not self._enabled.get(name, True)]
            if self._enabled[gate.name] and disabled:
                names = " ".join(disabled)
                yield f"{gate.name} is enabled, but depends on features that are disabled: [{names}]"

    def is_enabled(self, name: str) -> bool:
        return self._enabled[name]

    def enabled(self) -> frozenset[str]:
        """The names of the gates that are on."""
        return frozenset(name for name, value in self._enabled.items() if value)

    def __iter__(self) -> Iterator[tuple[FeatureGate, bool]]:
        for name, gate in known_gates().items():
            yield gate, self._enabled[name]

    def without_effect(self) -> list[str]:
        """The gates that were set to another value than their default, and that change nothing here."""
        return [
            name
            for name, value in self._settings.items()
            if value != known_gates()[name].default and name not in EFFECTIVE | _ALL_OF_STAGE.keys()
        ]


def _problem(name: str, value: bool) -> str:
    gate = known_gates().get(name)
    if gate is None:
        return f"unrecognized feature gate: {name}"
    if gate.locked and value != gate.default:
        default = str(gate.default).lower()
        return f"cannot set feature gate {name} to {str(value).lower()}, feature is locked to {default}"
    return ""


def _raise(problems: list[str]) -> None:
    if problems:
        raise FeatureGateError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
