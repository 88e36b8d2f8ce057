"""From chosen devices to the allocation that is written into a claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mooring.api.devices import (
    Allocation,
    DeviceAllocation,
    DeviceAllocationConfiguration,
    DeviceClass,
    DeviceResult,
)
from mooring.api.objects import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from mooring.plugins.dynamic_resources.plan import ClaimPlan
from mooring.plugins.dynamic_resources.search import AllocationError, Chosen, PlannedClaim, Solution

FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


def allocations(
    planned: Sequence[PlannedClaim],
    solution: Solution,
    node_name: str,
    device_class: Callable[[str], DeviceClass | None],
    new_share_id: Callable[[], str],
) -> list[Allocation]:
    """The allocation of each claim. Raises AllocationError."""
    return [
        Allocation(
            devices=DeviceAllocation(
                results=[_result(each, new_share_id) for each in devices],
                config=list(_config(one.plan, alternatives, device_class)),
            ),
            node_selector=_node_selector(one.claim.name, devices, node_name),
        )
        for one, devices, alternatives in zip(planned, solution.devices, solution.alternatives, strict=True)
    ]


def _result(chosen: Chosen, new_share_id: Callable[[], str]) -> DeviceResult:
    alternative, device = chosen.alternative, chosen.device
    driver, pool, name = device.id
    consumed = chosen.consumed
    return DeviceResult(
        request=alternative.result_name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if alternative.admin else None,
        tolerations=alternative.tolerations,
        binding_conditions=device.device.binding_conditions,
        binding_failure_conditions=device.device.binding_failure_conditions,
        share_id=None if consumed is None else new_share_id(),
        consumed_capacity={} if consumed is None else {name: a.text for name, a in consumed.items()},
    )


def _config(
    plan: ClaimPlan, chosen: Sequence[int], device_class: Callable[[str], DeviceClass | None]
) -> Iterable[DeviceAllocationConfiguration]:
    """Each class's configuration once, with all requests it is for; then the claim's own."""
    alternatives = [request.alternatives[i] for request, i in zip(plan.requests, chosen, strict=True)]
    by_class: dict[str, list[str]] = {}
    for alternative in alternatives:
        by_class.setdefault(alternative.class_name, []).append(alternative.result_name)
    for name, requests in by_class.items():
        definition = device_class(name)
        for config in () if definition is None else definition.spec.config:
            yield DeviceAllocationConfiguration(source=FROM_CLASS, requests=requests, opaque=config.opaque)
    for own in plan.spec.devices.config:
        copy = DeviceAllocationConfiguration(source=FROM_CLAIM, requests=own.requests, opaque=own.opaque)
        if not own.requests:
            yield copy
            continue
        for alternative in alternatives:
            names = {alternative.request, alternative.result_name}
            if names & set(own.requests):
                yield copy


def _node_selector(claim: str, devices: Sequence[Chosen], node_name: str) -> NodeSelector | None:
    """The nodes that can reach all devices; None: all nodes."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for chosen in devices:
        device, spec = chosen.device.device, chosen.device.slice
        own = device if spec.per_device_node_selection else spec
        if own.node_name is not None or device.binds_to_node:
            only = NodeSelectorRequirement(key="metadata.name", operator="In", values=[node_name])
            return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[only])])
        terms = [] if own.node_selector is None else own.node_selector.node_selector_terms
        if len(terms) > 1:
            problem = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise AllocationError(f"create NodeSelector for claim {claim}: {problem}")
        for term in terms:
            _add_new(fields, term.match_fields)
            _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=fields, match_expressions=expressions)
    return NodeSelector(node_selector_terms=[term])


def _add_new(terms: list[NodeSelectorRequirement], more: Iterable[NodeSelectorRequirement]) -> None:
    for each in more:
        if all(_content(each) != _content(other) for other in terms):
            terms.append(each)


def _content(each: NodeSelectorRequirement) -> tuple[str, str, frozenset[str]]:
    return each.key, each.operator, frozenset(each.values)
