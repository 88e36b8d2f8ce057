"""Arguments of the in-tree plugins: defaults and validation."""

from typing import Any

import pytest

from mooring.config import ConfigError, loads_and_resolve
from mooring.config.load import from_object
from mooring.framework.args import Args
from mooring.plugins.args import (
    IN_TREE_ARGS,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
)
from tests.config.fake_registry import v1

SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]


def config_with(plugin: str, args: object) -> dict[str, Any]:
    return v1(profiles=[{"pluginConfig": [{"name": plugin, "args": args}]}])


def decoded(plugin: str, args: object) -> Args:
    loaded = from_object(config_with(plugin, args))
    entry = loaded.config.profiles[0].plugin_config[0]
    assert isinstance(entry.args, IN_TREE_ARGS[plugin])
    return entry.args


def problems(plugin: str, args: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        from_object(config_with(plugin, args))
    prefix = "profiles[0].pluginConfig[0].args"
    return [f"{f.field.removeprefix(prefix).lstrip('.')}: {f.message}" for f in caught.value.findings]


@pytest.mark.parametrize("plugin", sorted(IN_TREE_ARGS))
def test_defaults_are_valid(plugin: str) -> None:
    assert list(IN_TREE_ARGS[plugin]().problems()) == []
    assert decoded(plugin, None) == IN_TREE_ARGS[plugin]()


def test_fields_have_python_names() -> None:
    fit = decoded(
        "NodeResourcesFit",
        {
            "ignoredResources": ["example.com/foo"],
            "ignoredResourceGroups": ["example.com"],
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": [{"name": "cpu"}, {"name": "memory", "weight": 0}, {"name": "x", "weight": 3}],
                "requestedToCapacityRatio": {"shape": SHAPE},
            },
        },
    )
    assert isinstance(fit, NodeResourcesFitArgs)
    assert (fit.ignored_resources, fit.ignored_resource_groups) == (["example.com/foo"], ["example.com"])
    assert [(r.name, r.weight) for r in fit.scoring_strategy.resources] == [
        ("cpu", 1),
        ("memory", 1),
        ("x", 3),
    ]
    ratio = fit.scoring_strategy.requested_to_capacity_ratio
    assert ratio is not None
    assert [(p.utilization, p.score) for p in ratio.shape] == [(0, 0), (100, 10)]


def test_a_strategy_without_resources_counts_cpu_and_memory() -> None:
    fit = decoded("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated", "resources": []}})
    assert isinstance(fit, NodeResourcesFitArgs)
    assert fit.scoring_strategy.resources == [ResourceSpec(name="cpu"), ResourceSpec(name="memory")]


def test_node_affinity_decodes_into_api_structs() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    args = decoded(
        "NodeAffinity",
        {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}},
    )
    assert isinstance(args, NodeAffinityArgs)
    assert args.added_affinity is not None
    assert args.added_affinity.required is not None
    assert args.added_affinity.required.node_selector_terms[0].match_expressions[0].values == ["ssd"]


def test_null_means_absent() -> None:
    args = decoded("InterPodAffinity", {"hardPodAffinityWeight": None})
    assert args == InterPodAffinityArgs(hard_pod_affinity_weight=1)


def test_empty_defaulting_type_is_system() -> None:
    assert decoded("PodTopologySpread", {"defaultingType": ""}) == PodTopologySpreadArgs()


@pytest.mark.parametrize(
    ("plugin", "args", "expected"),
    [
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 101, "minCandidateNodesAbsolute": -1},
            [
                "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
                "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
            ],
        ),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            [
                "minCandidateNodesPercentage: Invalid value: 0: "
                "cannot be zero at the same time as minCandidateNodesAbsolute",
                "minCandidateNodesAbsolute: Invalid value: 0: "
                "cannot be zero at the same time as minCandidateNodesPercentage",
            ],
        ),
        (
            "InterPodAffinity",
            {"hardPodAffinityWeight": 101},
            ["hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"],
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 2}, {"name": "cpu"}]},
            [
                "resources[0].weight: Invalid value: 2: must be 1",
                'resources[1].name: Duplicate value: "cpu"',
            ],
        ),
        (
            "NodeResourcesFit",
            {"ignoredResources": ["no spaces"], "ignoredResourceGroups": ["a.b/c"]},
            [
                'ignoredResources[0]: Invalid value: "no spaces": name part must consist of alphanumeric '
                "characters, '-', '_' or '.', and must start and end with an alphanumeric character",
                "ignoredResourceGroups[0]: Invalid value: \"a.b/c\": resource group name can't contain '/'",
            ],
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
            [
                'scoringStrategy.type: Unsupported value: "": supported values: '
                '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"',
                "scoringStrategy.resources[0].weight: Invalid value: 101: "
                "resource weight of cpu not in valid range (0, 100]",
            ],
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            [
                "scoringStrategy.requestedToCapacityRatio: Required value: "
                "must be specified when type is RequestedToCapacityRatio"
            ],
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "LeastAllocated", "requestedToCapacityRatio": {"shape": SHAPE}}},
            [
                "scoringStrategy.requestedToCapacityRatio: Forbidden: "
                "must be nil when type is not RequestedToCapacityRatio"
            ],
        ),
        (
            "NodeResourcesFit",
            {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "requestedToCapacityRatio": {
                        "shape": [{"utilization": 50, "score": 11}, {"utilization": 50, "score": 1}]
                    },
                }
            },
            [
                "scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: "
                "not in valid range [0, 10]",
                "scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 50: "
                "values must be sorted in increasing order",
            ],
        ),
        (
            "PodTopologySpread",
            {"defaultConstraints": [SPREAD]},
            ['defaultingType: Invalid value: "System": when .defaultConstraints are not empty'],
        ),
        (
            "PodTopologySpread",
            {
                "defaultingType": "List",
                "defaultConstraints": [SPREAD, SPREAD, {"whenUnsatisfiable": "Never", "labelSelector": {}}],
            },
            [
                'defaultConstraints[1]: Duplicate value: "{zone, DoNotSchedule}"',
                "defaultConstraints[2].maxSkew: Invalid value: 0: not in valid range (0, inf)",
                "defaultConstraints[2].topologyKey: Required value: can not be empty",
                'defaultConstraints[2].whenUnsatisfiable: Unsupported value: "Never": '
                'supported values: "DoNotSchedule", "ScheduleAnyway"',
                "defaultConstraints[2].labelSelector: Forbidden: "
                "constraint must not define a selector, as they deduced for each pod",
            ],
        ),
        (
            "VolumeBinding",
            {"bindTimeoutSeconds": -1, "shape": SHAPE},
            [
                "bindTimeoutSeconds: Invalid value: -1: "
                "invalid BindTimeoutSeconds, should not be a negative value",
                "shape: Forbidden: unexpected field `shape`, "
                "remove it or turn on the feature gate StorageCapacityScoring",
            ],
        ),
        (
            "DynamicResources",
            {"filterTimeout": "-1s", "bindingTimeout": "999ms"},
            [
                'filterTimeout: Invalid value: "-1s": must be zero or positive',
                'bindingTimeout: Invalid value: "999ms": must be at least 1 second',
            ],
        ),
        (
            "NodeAffinity",
            {
                "addedAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 1,
                            "preference": {
                                "matchExpressions": [
                                    {"key": "a", "operator": "Gt", "values": ["x"]},
                                    {"key": "a", "operator": "in"},
                                ],
                                "matchFields": [{"key": "metadata.name", "operator": "In", "values": []}],
                            },
                        }
                    ]
                }
            },
            [
                "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference."
                'matchExpressions[0].values[0]: Invalid value: "x": '
                "for 'Gt', 'Lt' operators, the value must be an integer",
                "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference."
                'matchExpressions[1].operator: Unsupported value: "in": supported values: '
                '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
                "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference."
                "matchFields[0].values: Invalid value: []: must have one element",
            ],
        ),
    ],
)
def test_validation_speaks_kube_schedulers_words(plugin: str, args: object, expected: list[str]) -> None:
    assert problems(plugin, args) == expected


def test_wrong_values_are_reported_along_with_unknown_fields() -> None:
    assert problems("InterPodAffinity", {"hardPodAffinityWeight": -1, "hardPodAffinityWait": 1}) == [
        'hardPodAffinityWait: unknown field "hardPodAffinityWait"',
        "hardPodAffinityWeight: Invalid value: -1: not in valid range [0, 100]",
    ]


def test_kind_and_api_version_inside_args_must_fit_the_plugin() -> None:
    right = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "InterPodAffinityArgs"}
    assert decoded("InterPodAffinity", right) == InterPodAffinityArgs()
    wrong = {"apiVersion": "kubescheduler.config.k8s.io/v1beta3", "kind": "NodeAffinityArgs"}
    assert problems("InterPodAffinity", wrong) == [
        "kind: args for plugin InterPodAffinity were not of type InterPodAffinityArgs, got NodeAffinityArgs",
        'apiVersion: no kind "InterPodAffinityArgs" is registered for version '
        '"kubescheduler.config.k8s.io/v1beta3"',
    ]


def test_problems_in_args_know_their_line() -> None:
    text = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources:
        - name: cpu
          weight: many
"""
    with pytest.raises(ConfigError) as caught:
        loads_and_resolve(text, {}, "s.yaml")
    assert str(caught.value.findings[-1]) == (
        "s.yaml:11: profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight: "
        'expected an integer, found string "many"'
    )
