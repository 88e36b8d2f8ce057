"""Feature gates as kube-scheduler v1.36.4 reads them; the texts were recorded from it."""

from __future__ import annotations

import pytest

from mooring.config import ConfigError, FeatureGateError, FeatureGates, loads, parse_feature_gates, to_object

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("Nope=true", "unrecognized feature gate: Nope"),
        (
            "DynamicResourceAllocation=false",
            "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
        ),
        (
            "DRADeviceTaints=maybe",
            'invalid value of DRADeviceTaints=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        ("DRADeviceTaints", "missing bool value for DRADeviceTaints"),
        (
            "DRADeviceTaints=false,DRADeviceTaintRules=true",
            "DRADeviceTaintRules is enabled, but depends on features that are disabled: [DRADeviceTaints]",
        ),
        ("kube:DRADeviceTaints=false,wardle:x=true", "component not registered: wardle"),
    ],
)
def test_errors_are_kube_schedulers(flag: str, problem: str) -> None:
    with pytest.raises(FeatureGateError) as raised:
        FeatureGates(parse_feature_gates([flag]))
    assert str(raised.value) == problem


def test_a_gate_is_set_by_name_by_stage_or_not_at_all() -> None:
    gates = FeatureGates(parse_feature_gates(["AllBeta=false,kube:DRADeviceTaints=true"]))
    assert gates.is_enabled("DRADeviceTaints")
    assert not gates.is_enabled("DRAConsumableCapacity")
    assert FeatureGates({"AllAlpha": True}).is_enabled("DRAListTypeAttributes")
    assert gates.is_enabled("DRAPrioritizedList")  # stable
    defaults = FeatureGates()
    assert all(gate.default == enabled for gate, enabled in defaults)
    assert not defaults.is_enabled("DRADeviceTaintRules")


def test_a_gate_without_effect_is_named() -> None:
    gates = FeatureGates({"ListFromCacheSnapshot": False, "DRADeviceTaints": False, "WatchList": True})
    assert gates.without_effect() == ["ListFromCacheSnapshot"]


def test_the_configuration_sets_gates_too() -> None:
    config = loads(HEAD + "featureGates:\n  DRADeviceTaints: false\n").config
    assert config.feature_gates == {"DRADeviceTaints": False}
    assert to_object(config)["featureGates"] == {"DRADeviceTaints": False}
    assert "featureGates" not in to_object(loads(HEAD).config)
    with pytest.raises(ConfigError, match="featureGates: unrecognized feature gate: Nope"):
        loads(HEAD + "featureGates:\n  Nope: true\n")
