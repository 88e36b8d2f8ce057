"""Files of older versions, read as v1."""

from typing import Any

import pytest

from mooring.config import ConfigError, LoadedConfig, from_object, loads, loads_and_resolve, resolve, to_yaml
from mooring.plugins.args import (
    InterPodAffinityArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
)
from tests.config.fake_registry import plugin, registry

GROUP = "kubescheduler.config.k8s.io"
OLD = ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3")
SAMPLE = plugin("sample-plugin", "preFilter", "filter", "preBind", "reserve")

V1ALPHA1 = """\
apiVersion: kubescheduler.config.k8s.io/v1alpha1
kind: KubeSchedulerConfiguration
schedulerName: sample-scheduler
leaderElection:
  leaderElect: true
  lockObjectName: sample-scheduler
  lockObjectNamespace: kube-public
plugins:
  preFilter:
    enabled:
    - name: "sample-plugin"
  filter:
    enabled:
    - name: "sample-plugin"
  preBind:
    enabled:
    - name: "sample-plugin"
pluginConfig:
- name: "sample-plugin"
  args:
    favorite_color: "#326CE5"
    favorite_number: 7
    thanks_to: "someone"
"""


def read(version: str, **fields: Any) -> LoadedConfig:
    return from_object({"apiVersion": f"{GROUP}/{version}", "kind": "KubeSchedulerConfiguration", **fields})


def problems(version: str, **fields: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(version, **fields)
    return [str(finding) for finding in caught.value.findings]


def args_of(loaded: LoadedConfig, name: str) -> Any:
    return next(e.args for e in loaded.config.profiles[0].plugin_config if e.name == name)


@pytest.mark.parametrize("version", OLD)
def test_old_versions_load_with_one_warning_and_write_as_v1(version: str) -> None:
    loaded = read(version)
    (warning,) = loaded.warnings
    assert f'"{GROUP}/{version}" is deprecated, move to "{GROUP}/v1"' in warning
    assert loaded.version == version
    assert loads(to_yaml(loaded.config)).config == loaded.config == read("v1").config
    assert read("v1").warnings == []


def test_v1alpha1_file_of_an_out_of_tree_scheduler() -> None:
    loaded, (profile,) = loads_and_resolve(V1ALPHA1, registry(SAMPLE), "scheduler-config.yaml")
    assert len(loaded.warnings) == 1
    election = loaded.config.leader_election
    assert (election.resource_namespace, election.resource_name) == ("kube-public", "sample-scheduler")
    assert profile.scheduler_name == "sample-scheduler"
    assert [point for point, names in profile.points.items() if "sample-plugin" in names] == [
        "preFilter",
        "filter",
        "preBind",
    ]
    assert profile.raw_args["sample-plugin"] == {
        "favorite_color": "#326CE5",
        "favorite_number": 7,
        "thanks_to": "someone",
    }


def test_problems_name_the_fields_of_the_file_not_of_the_conversion() -> None:
    text = V1ALPHA1 + "hardPodAffinitySymmetricWeight: 101\nbindTimeoutSeconds: soon\n"
    with pytest.raises(ConfigError) as caught:
        loads_and_resolve(text, registry(), "s.yaml")
    lines = str(caught.value).splitlines()
    assert sum("register it: --plugin MODULE:CLASS" in line for line in lines) == 3
    assert [line for line in lines if "hint:" not in line] == [
        's.yaml:11: plugins.preFilter.enabled[0]: unknown plugin "sample-plugin"',
        's.yaml:14: plugins.filter.enabled[0]: unknown plugin "sample-plugin"',
        's.yaml:17: plugins.preBind.enabled[0]: unknown plugin "sample-plugin"',
        "s.yaml:24: hardPodAffinitySymmetricWeight: Invalid value: 101: not in valid range [0, 100]",
        's.yaml:25: bindTimeoutSeconds: expected an integer, found string "soon"',
    ]


def test_v1alpha1_settings_become_plugin_arguments() -> None:
    loaded = read(
        "v1alpha1",
        hardPodAffinitySymmetricWeight=7,
        bindTimeoutSeconds=5,
        disablePreemption=True,
        algorithmSource={"provider": "DefaultProvider"},
        healthzBindAddress="0.0.0.0:10251",
        metricsBindAddress="0.0.0.0:0",
        leaderElection={"resourceLock": "endpoints"},
    )
    assert args_of(loaded, "InterPodAffinity") == InterPodAffinityArgs(hard_pod_affinity_weight=7)
    assert args_of(loaded, "VolumeBinding") == VolumeBindingArgs(bind_timeout_seconds=5)
    assert resolve(loaded, registry())[0].points["postFilter"] == ("DynamicResources",)
    assert loaded.config.healthz_bind_address == "0.0.0.0:10251"
    assert loaded.config.metrics_bind_address == "0.0.0.0:0"
    assert loaded.config.leader_election.resource_lock == "leases"


def test_v1alpha1_post_filter_is_todays_pre_score() -> None:
    loaded = read("v1alpha1", plugins={"postFilter": {"disabled": [{"name": "NodeAffinity"}]}})
    assert "NodeAffinity" not in resolve(loaded, registry())[0].points["preScore"]


def test_profiles_are_unknown_to_v1alpha1() -> None:
    assert problems("v1alpha1", profiles=[{}]) == [
        '<config>: profiles: unknown field "profiles" in v1alpha1\n'
        "  hint: v1alpha1 has schedulerName, plugins and pluginConfig at the top level"
    ]


def test_policies_and_unknown_providers_are_refused() -> None:
    (policy,) = problems("v1alpha1", algorithmSource={"policy": {"file": {"path": "p.json"}}})
    assert policy.startswith("<config>: algorithmSource.policy: policies are not supported")
    (provider,) = problems("v1alpha2", algorithmSource={"provider": "Mine"})
    assert 'algorithmSource.provider: Unsupported value: "Mine"' in provider


def test_the_autoscalers_provider_packs_nodes() -> None:
    loaded = read("v1alpha2", algorithmSource={"provider": "ClusterAutoscalerProvider"})
    assert args_of(loaded, "NodeResourcesFit").scoring_strategy.type == "MostAllocated"


def test_v1alpha2_settings_reach_every_profile() -> None:
    loaded = read(
        "v1alpha2",
        bindTimeoutSeconds=5,
        disablePreemption=True,
        profiles=[
            {"schedulerName": "a"},
            {
                "schedulerName": "b",
                "pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 6}}],
            },
        ],
    )
    first, second = resolve(loaded, registry())
    assert first.args["VolumeBinding"] == VolumeBindingArgs(bind_timeout_seconds=5)
    assert second.args["VolumeBinding"] == VolumeBindingArgs(bind_timeout_seconds=6)
    assert first.points["postFilter"] == second.points["postFilter"] == ("DynamicResources",)


def test_unreserve_is_part_of_reserve() -> None:
    sets = {
        "reserve": {"enabled": [{"name": "sample-plugin"}]},
        "unreserve": {"enabled": [{"name": "sample-plugin"}, {"name": "other"}]},
    }
    loaded = read("v1alpha2", profiles=[{"plugins": sets}])
    profile = resolve(loaded, registry(SAMPLE, plugin("other", "reserve")))[0]
    assert profile.points["reserve"][-2:] == ("sample-plugin", "other")


def test_v1alpha2_extenders_are_written_as_in_policies() -> None:
    loaded = read(
        "v1alpha2", extenders=[{"urlPrefix": "http://h", "enableHttps": True, "httpTimeout": 100_000_000}]
    )
    (extender,) = loaded.config.extenders
    assert extender.enable_https
    assert str(extender.http_timeout) == "100ms"


@pytest.mark.parametrize(
    ("name", "args", "strategy"),
    [
        ("NodeResourcesMostAllocated", {"resources": [{"name": "cpu", "weight": 3}]}, "MostAllocated"),
        (
            "RequestedToCapacityRatio",
            {
                "resources": [{"name": "cpu", "weight": 3}],
                "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
            },
            "RequestedToCapacityRatio",
        ),
    ],
)
def test_scoring_plugins_of_v1beta1_become_strategies(name: str, args: dict[str, Any], strategy: str) -> None:
    typed = {"apiVersion": f"{GROUP}/v1beta1", "kind": f"{name}Args", **args}
    sets = {
        "disabled": [{"name": "NodeResourcesLeastAllocated"}],
        "enabled": [{"name": name, "weight": 5}],
    }
    loaded = read(
        "v1beta1", profiles=[{"plugins": {"score": sets}, "pluginConfig": [{"name": name, "args": typed}]}]
    )
    profile = resolve(loaded, registry())[0]
    fit = profile.args["NodeResourcesFit"]
    assert isinstance(fit, NodeResourcesFitArgs)
    assert fit.scoring_strategy.type == strategy
    assert [(r.name, r.weight) for r in fit.scoring_strategy.resources] == [("cpu", 3)]
    assert (fit.scoring_strategy.requested_to_capacity_ratio is not None) == ("shape" in args)
    assert profile.weights["NodeResourcesFit"] == 5


def test_least_allocated_of_v1beta1_is_a_default_that_can_be_configured_or_disabled() -> None:
    given = [{"name": "NodeResourcesLeastAllocated", "args": {"resources": [{"name": "x", "weight": 2}]}}]
    fit = args_of(read("v1beta1", profiles=[{"pluginConfig": given}]), "NodeResourcesFit")
    assert (fit.scoring_strategy.type, fit.scoring_strategy.resources[0].name) == ("LeastAllocated", "x")

    disabled = {"score": {"disabled": [{"name": "NodeResourcesLeastAllocated"}]}}
    profile = resolve(read("v1beta1", profiles=[{"plugins": disabled}]), registry())[0]
    assert "NodeResourcesFit" not in profile.weights
    assert "NodeResourcesFit" in profile.points["filter"]


def test_two_scoring_plugins_have_no_equivalent() -> None:
    sets = {"enabled": [{"name": "NodeResourcesMostAllocated"}, {"name": "RequestedToCapacityRatio"}]}
    first, *_ = problems("v1beta1", profiles=[{"plugins": {"score": sets}}])
    assert first.startswith(
        "<config>: profiles[0].plugins.score.enabled[1]: "
        'plugins "NodeResourcesMostAllocated" and "RequestedToCapacityRatio" cannot both be converted'
    )


@pytest.mark.parametrize(
    ("version", "name", "hint"),
    [
        ("v1beta1", "NodeLabel", "NodeAffinity"),
        ("v1beta1", "ServiceAffinity", "InterPodAffinity"),
        ("v1beta1", "NodePreferAvoidPods", "PreferNoSchedule"),
        ("v1beta2", "NodeResourcesMostAllocated", "scoringStrategy.type: MostAllocated"),
        ("v1beta3", "SelectorSpread", "PodTopologySpread"),
    ],
)
def test_removed_plugins_name_their_successor_and_may_stay_disabled(
    version: str, name: str, hint: str
) -> None:
    enabled = {"score": {"enabled": [{"name": "ImageLocality"}, {"name": name}]}}
    (problem,) = problems(version, profiles=[{"plugins": enabled}])
    assert problem.startswith(f'<config>: profiles[0].plugins.score.enabled[1]: plugin "{name}" of {version}')
    assert hint in problem.splitlines()[1]

    disabled = {"score": {"disabled": [{"name": name}]}}
    assert resolve(read(version, profiles=[{"plugins": disabled}]), registry())[0].warnings == []


def test_default_constraints_were_always_a_list_before_defaulting_type() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    given = [{"name": "PodTopologySpread", "args": {"defaultConstraints": [constraint]}}]
    args = args_of(read("v1beta1", profiles=[{"pluginConfig": given}]), "PodTopologySpread")
    assert isinstance(args, PodTopologySpreadArgs)
    assert args.defaulting_type == "List"
    assert problems("v1beta2", profiles=[{"pluginConfig": given}])


def test_args_of_old_files_may_carry_the_old_version() -> None:
    args = {"apiVersion": f"{GROUP}/v1beta2", "kind": "VolumeBindingArgs", "bindTimeoutSeconds": 3}
    loaded = read("v1beta3", profiles=[{"pluginConfig": [{"name": "VolumeBinding", "args": args}]}])
    assert args_of(loaded, "VolumeBinding") == VolumeBindingArgs(bind_timeout_seconds=3)


@pytest.mark.parametrize("version", [*OLD, "v1"])
@pytest.mark.parametrize(
    "broken",
    [
        3,
        "x",
        [3],
        {"score": 3},
        {"score": {"enabled": [3, {"name": []}]}},
        {"multiPoint": {"enabled": [3, {}]}},
    ],
)
def test_malformed_profiles_are_reported_not_raised(version: str, broken: object) -> None:
    profile = {"plugins": broken, "pluginConfig": broken}
    assert problems(version, **(profile if version == "v1alpha1" else {"profiles": [profile]}))
