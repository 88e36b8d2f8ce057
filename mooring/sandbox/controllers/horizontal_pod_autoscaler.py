"""HorizontalPodAutoscalers: set the replicas of a workload by the CPU and memory that its pods use."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from mooring.api.kinds import PODS, ApiResource
from mooring.api.meta import KubeObject, Struct, Tree
from mooring.api.objects import Pod
from mooring.api.selector_text import parse_selector
from mooring.api.selectors import from_requirements, requirement
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.sandbox.controllers.replica_proposals import MetricError, Proposal, Source, Tolerances, propose
from mooring.sandbox.controllers.scaling_limits import Behavior, ScalingHistory, limit_without_behavior
from mooring.sandbox.programs.loads import Loads
from mooring.sandbox.programs.usage import container_usage

PERIOD = 15.0
_SOURCES = {"Resource": "resource", "ContainerResource": "containerResource"}
"""The fields of metrics by their types."""


class TargetReference(Struct):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class AutoscalerSpec(Struct):
    scale_target_ref: TargetReference = msgspec.field(default_factory=TargetReference)
    min_replicas: int = 1
    max_replicas: int = 0
    metrics: list[Tree] = []
    behavior: Behavior | None = None

    @property
    def tolerances(self) -> Tolerances:
        if self.behavior is None:
            return Tolerances()
        return Tolerances(self.behavior.scale_down.tolerated, self.behavior.scale_up.tolerated)


class HorizontalPodAutoscaler(KubeObject):
    spec: AutoscalerSpec = msgspec.field(default_factory=AutoscalerSpec)
    status: Tree = {}


class ScaleSpec(Struct):
    replicas: int = 0


class ScaleStatus(Struct):
    replicas: int = 0
    selector: str = ""


class Scale(KubeObject):
    spec: ScaleSpec = msgspec.field(default_factory=ScaleSpec)
    status: ScaleStatus = msgspec.field(default_factory=ScaleStatus)


AUTOSCALERS = ApiResource("autoscaling", "v2", "horizontalpodautoscalers", True, HorizontalPodAutoscaler)


class _Status:
    """The status to be written."""

    def __init__(self, hpa: HorizontalPodAutoscaler, now: str) -> None:
        self.tree: Tree = dict(hpa.status)
        self._conditions: dict[str, Tree] = {one["type"]: one for one in hpa.status.get("conditions") or ()}
        self._now = now

    def set(self, type: str, status: bool, reason: str, message: str) -> None:
        old, value = self._conditions.get(type, {}), "True" if status else "False"
        since = old["lastTransitionTime"] if old.get("status") == value else self._now
        self._conditions[type] = {
            "type": type,
            "status": value,
            "lastTransitionTime": since,
            "reason": reason,
            "message": message,
        }
        self.tree["conditions"] = [*self._conditions.values()]


class HorizontalPodAutoscalerController(Controller):
    name = "horizontal-pod-autoscaler"

    def __init__(self, context: Context, loads: Loads | None = None) -> None:
        super().__init__(context)
        self._loads = loads or Loads()
        self._autoscalers = self.cache.follow(AUTOSCALERS)
        self._pods = self.cache.follow(PODS)
        self._histories: dict[str, ScalingHistory] = {}
        self._autoscalers.subscribe(self._changed)

    def _changed(self, old: HorizontalPodAutoscaler | None, new: HorizontalPodAutoscaler | None) -> None:
        if new is not None:
            self.enqueue(new.key, PERIOD)
        elif old is not None:
            self._histories.pop(old.key, None)

    async def sync(self, key: str) -> None:
        hpa = self._autoscalers.get(key)
        if hpa is None:
            return
        self.enqueue(key, PERIOD)
        status = _Status(hpa, self.context.now())
        await self._reconcile(hpa, status)
        if status.tree != hpa.status:
            # null removes what is no longer there
            patch = {"status": {**dict.fromkeys(hpa.status), **status.tree}}
            written = await self.cluster.patch(
                AUTOSCALERS, hpa.name, patch, hpa.namespace, subresource="status"
            )
            self._autoscalers.wrote(written)

    async def _reconcile(self, hpa: HorizontalPodAutoscaler, status: _Status) -> None:
        try:
            target, scale = await self._scale(hpa)
        except (ApiError, LookupError) as error:
            why = f"the HPA controller was unable to get the target's current scale: {error}"
            self.event(self._autoscalers, hpa, "Warning", "FailedGetScale", str(error))
            status.set("AbleToScale", False, "FailedGetScale", why)
            return
        why = "the HPA controller was able to get the target's current scale"
        status.set("AbleToScale", True, "SucceededGetScale", why)
        current = scale.spec.replicas
        status.tree["currentReplicas"] = scale.status.replicas
        now = self.context.clock()
        history = self._histories.setdefault(hpa.key, ScalingHistory(current, now))
        desired, reason = await self._desired(hpa, scale, status, history)
        if desired is None:
            status.tree["desiredReplicas"] = status.tree.get("desiredReplicas", 0)
            return
        status.tree["desiredReplicas"] = desired
        if desired == current:
            return
        await self.cluster.patch(
            target, scale.name, {"spec": {"replicas": desired}}, hpa.namespace, subresource="scale"
        )
        history.record(current, desired, hpa.spec.behavior, now)
        why = f"the HPA controller was able to update the target scale to {desired}"
        status.set("AbleToScale", True, "SucceededRescale", why)
        status.tree["lastScaleTime"] = self.context.now()
        note = f"New size: {desired}; reason: {reason}"
        self.event(self._autoscalers, hpa, "Normal", "SuccessfulRescale", note)

    async def _scale(self, hpa: HorizontalPodAutoscaler) -> tuple[ApiResource[Scale], Scale]:
        reference = hpa.spec.scale_target_ref
        group = reference.api_version.rpartition("/")[0]
        for one in await self.cluster.served_kinds():
            if (one.resource.group, one.kind) == (group, reference.kind):
                kind = one.resource
                target = ApiResource(kind.group, kind.version, kind.plural, kind.namespaced, Scale)
                return target, await self.cluster.get(target, reference.name, hpa.namespace, "scale")
        raise LookupError(
            f'no matches for kind "{reference.kind}" in group "{group}"',
        )

    # ---- the number of replicas

    async def _desired(
        self, hpa: HorizontalPodAutoscaler, scale: Scale, status: _Status, history: ScalingHistory
    ) -> tuple[int | None, str]:
        """Return the number of replicas and the reason for it; None where it is unknown."""
        current, spec = scale.spec.replicas, hpa.spec
        if current == 0:
            why = "scaling is disabled since the replica count of the target is zero"
            status.set("ScalingActive", False, "ScalingDisabled", why)
            return 0, ""
        if current > spec.max_replicas:
            return spec.max_replicas, "Current number of replicas above Spec.MaxReplicas"
        if current < spec.min_replicas:
            return spec.min_replicas, "Current number of replicas below Spec.MinReplicas"
        if not scale.status.selector:
            self.event(self._autoscalers, hpa, "Warning", "SelectorRequired", "selector is required")
            why = "the HPA target's scale is missing a selector"
            status.set("ScalingActive", False, "InvalidSelector", why)
            return None, ""
        best = await self._propose(hpa, scale, status)
        if best is None:
            return None, ""
        now, behavior = self.context.clock(), spec.behavior
        stable = history.stabilize(current, best.replicas, behavior, now)
        status.set("AbleToScale", True, stable.reason, stable.message)
        bounds = spec.min_replicas, spec.max_replicas
        if behavior is None:
            limited = limit_without_behavior(current, stable.replicas, *bounds)
        else:
            limited = history.limit_by(behavior, current, stable.replicas, *bounds, now)
        is_limited = limited.replicas != stable.replicas
        status.set("ScalingLimited", is_limited, limited.reason, limited.message)
        above = best.replicas > current
        return limited.replicas, f"{best.metric} above target" if above else "All metrics below target"

    async def _propose(self, hpa: HorizontalPodAutoscaler, scale: Scale, status: _Status) -> Proposal | None:
        """Return the highest proposal of all metrics. If one fails, the others may still add replicas."""
        pods, proposals, statuses, failures = (
            self._selected(hpa, scale),
            list[Proposal](),
            list[Tree](),
            list[tuple[str, str]](),
        )
        for metric in hpa.spec.metrics:
            await asyncio.sleep(0)  # each looks at all pods
            try:
                proposal = self._propose_for(metric, pods, scale.spec.replicas, hpa.spec.tolerances)
            except MetricError as error:
                reason = f"FailedGet{metric['type']}Metric"
                self.event(self._autoscalers, hpa, "Warning", reason, str(error))
                failures.append((reason, str(error)))
                statuses.append({"type": ""})
            else:
                proposals.append(proposal)
                field = _SOURCES[metric["type"]]
                source = {
                    name: metric[field][name] for name in ("name", "container") if name in metric[field]
                }
                statuses.append({"type": metric["type"], field: {**source, "current": proposal.current}})
        status.tree["currentMetrics"] = statuses
        best = max(proposals, key=lambda one: one.replicas, default=None)
        if best is None or (failures and best.replicas < scale.spec.replicas):
            reason, first = failures[0]
            why = f"the HPA was unable to compute the replica count: {first}"
            status.set("ScalingActive", False, reason, why)
            count = f"{len(failures)} invalid out of {len(hpa.spec.metrics)}"
            note = f"invalid metrics ({count}), first error is: {first}"
            self.event(self._autoscalers, hpa, "Warning", "FailedComputeMetricsReplicas", note)
            return None
        why = f"the HPA was able to successfully calculate a replica count from {best.metric}"
        status.set("ScalingActive", True, "ValidMetricFound", why)
        return best

    def _selected(self, hpa: HorizontalPodAutoscaler, scale: Scale) -> Sequence[Pod]:
        selector = from_requirements(requirement(*term) for term in parse_selector(scale.status.selector))
        pods = self._pods.in_namespace(hpa.namespace)
        return [pod for pod in pods if selector.matches(pod.metadata.labels)]

    def _propose_for(
        self, metric: Tree, pods: Sequence[Pod], replicas: int, tolerances: Tolerances
    ) -> Proposal:
        field = _SOURCES.get(metric["type"])
        if field is None:
            raise MetricError(f"metrics of type {metric['type']} are not supported by the sandbox")
        spec, now = metric[field], self.context.clock()
        source = Source(spec["name"], spec["target"], spec.get("container", ""))
        if source.resource not in ("cpu", "memory"):
            raise MetricError(f"unable to get metrics for resource {source.resource}: no metrics returned")
        return propose(
            pods, source, replicas, tolerances, lambda pod: container_usage(pod, self._loads, now), now
        )
