"""MultiPoint expansion and arguments of profiles, against a registry."""

from typing import Any

import pytest

from mooring.config import (
    ConfigError,
    KubeSchedulerConfiguration,
    PluginConfig,
    PluginRef,
    ResolvedProfile,
    default_config,
    from_object,
    loads,
    resolve,
)
from mooring.framework.args import Args
from mooring.framework.extension_points import EXTENSION_POINTS
from mooring.plugins.args import NodeResourcesFitArgs
from tests.config.fake_registry import POINTS, plugin, registry, v1

WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "VolumeBinding": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


class MineArgs(Args):
    size: int
    color: str = "red"


MINE = plugin("Mine", "preFilter", "filter", "score")


def names(*listed: str) -> list[dict[str, str]]:
    return [{"name": name} for name in listed]


def profile(*more: Any, plugins: object = None, config: object = None, **fields: Any) -> ResolvedProfile:
    (resolved,) = resolve(
        from_object(v1(profiles=[{"plugins": plugins, "pluginConfig": config}], **fields)), registry(*more)
    )
    return resolved


def problems(*more: Any, plugins: object = None, config: object = None, **fields: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        profile(*more, plugins=plugins, config=config, **fields)
    return [str(f).removeprefix("<config>: profiles[0].") for f in caught.value.findings]


# ---- expansion


def test_the_default_profile_is_kube_schedulers() -> None:
    (resolved,) = resolve(default_config(), registry())
    assert {point: " ".join(run) for point, run in resolved.points.items() if run} == POINTS
    assert resolved.weights == WEIGHTS
    assert resolved.points.keys() >= EXTENSION_POINTS.keys()


def test_plugins_listed_at_a_point_and_in_multi_point_run_first_then_multi_points_then_the_rest() -> None:
    score = {"enabled": [*names("Mine", "ImageLocality"), {"name": "NodeAffinity", "weight": 9}]}
    resolved = profile(MINE, plugins={"score": score})
    assert resolved.points["score"] == (
        "ImageLocality",
        "NodeAffinity",
        "TaintToleration",
        "NodeResourcesFit",
        "VolumeBinding",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "NodeResourcesBalancedAllocation",
        "Mine",
    )
    assert resolved.weights == {**WEIGHTS, "NodeAffinity": 9, "Mine": 1}


def test_listing_a_default_again_without_weight_makes_it_one() -> None:
    assert profile(plugins={"score": {"enabled": names("TaintToleration")}}).weights["TaintToleration"] == 1
    multi_point = profile(plugins={"multiPoint": {"enabled": names("TaintToleration")}})
    assert multi_point.weights["TaintToleration"] == 1
    assert multi_point.points["score"][0] == "TaintToleration"  # replaced where it stands


def test_multi_point_adds_a_plugin_at_every_point_it_implements() -> None:
    resolved = profile(MINE, plugins={"multiPoint": {"enabled": [{"name": "Mine", "weight": 4}]}})
    assert [point for point, run in resolved.points.items() if run[-1:] == ("Mine",)] == [
        "preFilter",
        "filter",
        "score",
    ]
    assert resolved.weights["Mine"] == 4


def test_disabling_at_a_point_and_in_multi_point() -> None:
    at_score = profile(plugins={"score": {"disabled": names("NodeAffinity")}})
    assert "NodeAffinity" not in at_score.points["score"]
    assert "NodeAffinity" in at_score.points["filter"]
    everywhere = profile(plugins={"multiPoint": {"disabled": names("NodeAffinity")}})
    assert "NodeAffinity" not in everywhere.args


def test_a_star_at_a_point_stops_multi_point_there() -> None:
    resolved = profile(plugins={"score": {"disabled": names("*"), "enabled": names("ImageLocality")}})
    assert resolved.points["score"] == ("ImageLocality",)
    assert resolved.points["preScore"] != ()


def test_a_star_in_multi_point_leaves_only_what_is_listed() -> None:
    kept = names("PrioritySort", "DefaultBinder")
    resolved = profile(plugins={"multiPoint": {"disabled": names("*"), "enabled": kept}})
    assert {p: run for p, run in resolved.points.items() if run} == {
        "queueSort": ("PrioritySort",),
        "bind": ("DefaultBinder",),
    }
    assert resolved.weights == {}


def test_a_plugin_both_enabled_and_disabled_at_a_point_runs_last() -> None:
    both = {"disabled": names("TaintToleration"), "enabled": names("TaintToleration")}
    assert profile(plugins={"score": both}).points["score"][-1] == "TaintToleration"


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        (
            {
                "multiPoint": {
                    "enabled": [
                        {"name": "PodTopologySpread", "weight": 18},
                        {"name": "InterPodAffinity", "weight": 2},
                        {"name": "ImageLocality", "weight": 16},
                    ],
                    "disabled": names("PodTopologySpread", "InterPodAffinity", "ImageLocality"),
                }
            },
            {
                "preScore": "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding "
                "NodeResourcesBalancedAllocation PodTopologySpread InterPodAffinity",
                "score": "TaintToleration 3 NodeAffinity 2 NodeResourcesFit 1 VolumeBinding 1 "
                "DynamicResources 2 NodeResourcesBalancedAllocation 1 PodTopologySpread 18 "
                "InterPodAffinity 2 ImageLocality 16",
            },
        ),
        (
            {
                "score": {
                    "disabled": names("*"),
                    "enabled": [{"name": "NodeResourcesFit", "weight": 20}, *names("InterPodAffinity")],
                },
                "filter": {"disabled": names("NodeResourcesFit", "NodePorts")},
            },
            {
                "filter": "NodeUnschedulable NodeName TaintToleration NodeAffinity VolumeRestrictions "
                "NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity "
                "DynamicResources NodeDeclaredFeatures",
                "preFilter": POINTS["preFilter"],
                "score": "NodeResourcesFit 20 InterPodAffinity 1",
            },
        ),
    ],
)
def test_profiles_expand_as_in_kube_scheduler(plugins: dict[str, Any], expected: dict[str, str]) -> None:
    resolved = profile(plugins=plugins)
    shown = {point: " ".join(run) for point, run in resolved.points.items()}
    shown["score"] = " ".join(f"{name} {resolved.weights[name]}" for name in resolved.points["score"])
    assert {point: shown[point] for point in expected} == expected


# ---- what cannot be resolved


def test_unknown_plugins_are_hinted_at() -> None:
    assert problems(
        plugins={
            "score": {"enabled": names("NodeResorcesFit", "NodeResourcesMostAllocated")},
            "multiPoint": {"enabled": names("ImageLocality", "nodeports")},
        }
    ) == [
        'plugins.multiPoint.enabled[1]: unknown plugin "nodeports"\n  hint: did you mean "NodePorts"?',
        'plugins.score.enabled[0]: unknown plugin "NodeResorcesFit"\n'
        '  hint: did you mean "NodeResourcesFit"?',
        'plugins.score.enabled[1]: unknown plugin "NodeResourcesMostAllocated"\n'
        "  hint: use NodeResourcesFit with args.scoringStrategy.type: MostAllocated",
    ]


def test_a_plugin_must_implement_the_point_it_is_enabled_at() -> None:
    assert problems(plugins={"score": {"enabled": names("NodePorts")}}) == [
        'plugins.score.enabled[0]: plugin "NodePorts" does not extend ScorePlugin plugin\n'
        "  hint: it implements filter, preFilter"
    ]


def test_duplicates_at_a_point_and_in_multi_point() -> None:
    assert problems(MINE, plugins={"score": {"enabled": names("Mine", "Mine")}}) == [
        'plugins.score.enabled[1]: plugin "Mine" already registered as "ScorePlugin"'
    ]
    found = problems(MINE, plugins={"multiPoint": {"enabled": names("Mine", "Mine")}})
    assert found[0] == 'plugins.multiPoint.enabled[1]: plugin "Mine" already registered as "PreFilterPlugin"'


def test_a_profile_needs_one_queue_sort_and_a_binder() -> None:
    sort = plugin("Sort", "queueSort")
    assert problems(sort, plugins={"queueSort": {"enabled": names("Sort")}}) == [
        "plugins.queueSort: only one queue sort plugin required for profile with scheduler name "
        '"default-scheduler", but got 2\n  hint: enabled are PrioritySort, Sort: disable all but one'
    ]
    none = problems(plugins={"multiPoint": {"disabled": names("PrioritySort", "DefaultBinder")}})
    assert [text.splitlines()[0] for text in none] == [
        "plugins.queueSort: only one queue sort plugin required for profile with scheduler name "
        '"default-scheduler", but got 0',
        "plugins.bind: at least one bind plugin is needed for profile with scheduler name "
        '"default-scheduler"',
    ]


def test_profiles_must_sort_the_queue_alike() -> None:
    sort = plugin("Sort", "queueSort")
    other = {"disabled": names("PrioritySort"), "enabled": names("Sort")}
    multi_point = {"schedulerName": "b", "plugins": {"multiPoint": other}}
    loaded = from_object(v1(profiles=[{"schedulerName": "a"}, multi_point]))
    with pytest.raises(ConfigError) as caught:
        resolve(loaded, registry(sort))
    assert [f.message for f in caught.value.findings] == [
        'different queue sort plugins for profile "b": "Sort", first: "PrioritySort"'
    ]


def test_queue_sorts_must_have_the_same_args() -> None:
    sort = plugin("Sort", "queueSort")
    sets = {"multiPoint": {"disabled": names("PrioritySort"), "enabled": names("Sort")}}
    loaded = from_object(
        v1(
            profiles=[
                {"schedulerName": "a", "plugins": sets, "pluginConfig": [{"name": "Sort", "args": {"x": 1}}]},
                {"schedulerName": "b", "plugins": sets, "pluginConfig": [{"name": "Sort", "args": {"x": 2}}]},
            ]
        )
    )
    with pytest.raises(ConfigError, match='different queue sort plugin args for profile "b"'):
        resolve(loaded, registry(sort))


def test_weights_that_could_overflow() -> None:
    config = default_config()
    config.profiles[0].plugins.score.enabled.append(PluginRef(name="ImageLocality", weight=2**60))
    with pytest.raises(ConfigError, match="total score of Score plugins could overflow"):
        resolve(config, registry())


# ---- arguments


def test_args_of_other_plugins_are_decoded_to_the_type_they_declare() -> None:
    mine = plugin("Mine", "score", args=MineArgs)
    sets = {"score": {"enabled": names("Mine")}}
    resolved = profile(mine, plugins=sets, config=[{"name": "Mine", "args": {"size": 3}}])
    assert resolved.args["Mine"] == MineArgs(size=3)
    assert resolved.args["ImageLocality"] is None
    assert "Mine" not in resolved.raw_args

    wrong = [
        {"name": "Mine", "args": {"kind": "MineArgs", "apiVersion": "mine/v1", "size": "big", "colr": 1}}
    ]
    assert problems(mine, plugins=sets, config=wrong) == [
        'pluginConfig[0].args.colr: unknown field "colr"\n  hint: did you mean "color"?',
        'pluginConfig[0].args.size: expected an integer, found string "big"',
    ]
    assert problems(mine, plugins=sets)[0].endswith("args.size: Required value")


def test_args_without_a_declared_type_stay_as_they_are() -> None:
    config = [{"name": "Mine", "args": {"anything": [1, {"a": None}]}}]
    resolved = profile(MINE, plugins={"filter": {"enabled": names("Mine")}}, config=config)
    assert resolved.args["Mine"] is None
    assert resolved.raw_args == {"Mine": {"anything": [1, {"a": None}]}}


def test_names_without_effect_are_warned_about() -> None:
    resolved = profile(
        plugins={"score": {"disabled": names("ImageLocalty")}}, config=[{"name": "Nothing", "args": {}}]
    )
    assert resolved.warnings == [
        '<config>: profiles[0].plugins.score.disabled[0]: unknown plugin "ImageLocalty" has no effect\n'
        '  hint: did you mean "ImageLocality"?',
        '<config>: profiles[0].pluginConfig[0]: args of unknown plugin "Nothing" have no effect',
    ]


def test_resources_of_extenders_replace_the_ignored_ones() -> None:
    managed = [{"name": "example.com/gpu", "ignoredByScheduler": True}, {"name": "example.com/nic"}]
    fit = [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/foo"]}}]
    resolved = profile(config=fit, extenders=[{"urlPrefix": "http://h", "managedResources": managed}])
    args = resolved.args["NodeResourcesFit"]
    assert isinstance(args, NodeResourcesFitArgs)
    assert args.ignored_resources == ["example.com/gpu"]

    without = {"multiPoint": {"disabled": names("NodeResourcesFit")}}
    assert problems(plugins=without, extenders=[{"urlPrefix": "http://h", "managedResources": managed}]) == [
        "pluginConfig: couldn't build extenders: can't find NodeResourcesFitArgs in plugin config"
    ]


def test_a_plugin_registered_under_an_in_tree_name_may_type_its_args_anew() -> None:
    class Own(Args):
        hard_pod_affinity_weight: int = 5
        ignore_preferred_terms_of_existing_pods: bool = True

    replaced = {**registry(), "InterPodAffinity": plugin("InterPodAffinity", "filter", args=Own)}
    config: KubeSchedulerConfiguration = default_config()
    (resolved,) = resolve(config, replaced)
    assert resolved.args["InterPodAffinity"] == Own(
        hard_pod_affinity_weight=1, ignore_preferred_terms_of_existing_pods=False
    )
    assert isinstance(config.profiles[0].plugin_config[0], PluginConfig)


def test_the_percentage_of_a_profile_is_its_own() -> None:
    loaded = from_object(
        v1(
            percentageOfNodesToScore=30,
            profiles=[{"schedulerName": "a", "percentageOfNodesToScore": 0}, {"schedulerName": "b"}],
        )
    )
    assert [p.percentage_of_nodes_to_score for p in resolve(loaded, registry())] == [0, None]


@pytest.mark.parametrize(
    ("plugins", "accepted"),  # as kube-scheduler v1.36.4 accepts them
    [
        ("{multiPoint: {enabled: [{name: ImageLocality, weight: -1}]}}", True),
        ("{score: {enabled: [{name: NodeAffinity, weight: 2}, {name: ImageLocality, weight: -1}]}}", True),
        ("{score: {enabled: [{name: NodeAffinity, weight: 1}, {name: ImageLocality, weight: -2}]}}", False),
        ("{score: {enabled: [{name: ImageLocality, weight: -1}]}}", False),
        ('{score: {disabled: [{name: "*"}], enabled: [{name: ImageLocality, weight: -1}]}}', False),
    ],
)
def test_negative_weights_as_in_kube_scheduler(plugins: str, accepted: bool) -> None:
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{plugins: {plugins}}}]\n"
    )
    if accepted:
        [profile] = resolve(loads(text), registry())
        assert profile.weights["ImageLocality"] < 0
        assert 'plugin "ImageLocality" has weight -1' in profile.warnings[0]
    else:
        with pytest.raises(ConfigError, match=r"could overflow\n.*list negative ones last"):
            resolve(loads(text), registry())
