"""HorizontalPodAutoscalers, in version 2."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.errors import invalid_value, not_supported, required
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.autoscaling_metrics import metrics, referred
from mooring.sandbox.apiserver.validation.fields import NOT_POSITIVE, Causes, optional_choice
from mooring.sandbox.apiserver.validation.resources import resource_value

_LONGEST_WINDOW: Final = 3600
_LONGEST_PERIOD: Final = 1800


def horizontal_pod_autoscaler(obj: Tree) -> Causes:
    spec = obj["spec"]
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is not None and least < 1:
        yield invalid_value("spec.minReplicas", least, "must be greater than or equal to 1")
    if most == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield invalid_value("spec.maxReplicas", most, "must be greater than or equal to 1")
    if least is not None and most < least:
        yield invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    yield from referred("spec.scaleTargetRef", spec.get("scaleTargetRef") or {}, core=False)
    yield from metrics("spec.metrics", spec.get("metrics") or ())
    behavior = spec.get("behavior") or {}
    for direction in ("scaleUp", "scaleDown"):
        if behavior.get(direction) is not None:
            yield from _rules(f"spec.behavior.{direction}", behavior[direction])


def _rules(path: str, rules: Tree) -> Causes:
    window, window_path = rules.get("stabilizationWindowSeconds", 0), f"{path}.stabilizationWindowSeconds"
    if window < 0:
        yield invalid_value(window_path, window, "must be greater than or equal to zero")
    if window > _LONGEST_WINDOW:
        yield invalid_value(window_path, window, f"must be less than or equal to {_LONGEST_WINDOW}")
    yield from optional_choice(f"{path}.selectPolicy", rules.get("selectPolicy"), ("Disabled", "Max", "Min"))
    policies = rules.get("policies") or ()
    if not policies:
        yield required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(policies):
        yield from _policy(f"{path}.policies[{index}]", policy)
    if rules.get("tolerance") is not None:
        yield from resource_value(f"{path}.tolerance", "", rules["tolerance"])


def _policy(path: str, policy: Tree) -> Causes:
    if policy.get("type") not in ("Pods", "Percent"):
        yield not_supported(f"{path}.type", policy.get("type", ""), ("Percent", "Pods"))
    for member in ("value", "periodSeconds"):
        if policy.get(member, 0) <= 0:
            yield invalid_value(f"{path}.{member}", policy.get(member, 0), NOT_POSITIVE)
    period = policy.get("periodSeconds", 0)
    if period > _LONGEST_PERIOD:
        yield invalid_value(
            f"{path}.periodSeconds", period, f"must be less than or equal to {_LONGEST_PERIOD}"
        )
