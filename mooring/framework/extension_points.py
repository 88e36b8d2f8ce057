"""The extension points by their Kubernetes names, and the methods a plugin implements them with."""

from typing import NamedTuple


class ExtensionPoint(NamedTuple):
    """One extension point: its name in configuration files, in Go, and its methods in Python."""

    name: str  # as in KubeSchedulerConfiguration: "preFilter"
    interface: str  # as in kube-scheduler's messages and metrics: "PreFilterPlugin" is interface + "Plugin"
    methods: tuple[str, ...]  # overriding any one of these implements the point


EXTENSION_POINTS: dict[str, ExtensionPoint] = {
    point.name: point
    for point in (
        ExtensionPoint("preEnqueue", "PreEnqueue", ("pre_enqueue",)),
        ExtensionPoint("queueSort", "QueueSort", ("sorts_before",)),
        ExtensionPoint("preFilter", "PreFilter", ("pre_filter",)),
        ExtensionPoint("filter", "Filter", ("filter", "filter_nodes")),
        ExtensionPoint("postFilter", "PostFilter", ("post_filter",)),
        ExtensionPoint("preScore", "PreScore", ("pre_score",)),
        ExtensionPoint("score", "Score", ("score", "score_nodes")),
        ExtensionPoint("reserve", "Reserve", ("reserve", "unreserve")),
        ExtensionPoint("permit", "Permit", ("permit",)),
        ExtensionPoint("preBind", "PreBind", ("pre_bind",)),
        ExtensionPoint("bind", "Bind", ("bind",)),
        ExtensionPoint("postBind", "PostBind", ("post_bind",)),
        ExtensionPoint("placementGenerate", "PlacementGenerate", ("generate_placements",)),
        ExtensionPoint("placementScore", "PlacementScore", ("score_placement",)),
    )
}
