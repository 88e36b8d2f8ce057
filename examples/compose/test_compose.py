"""Profiles side by side, plugins with weights, and scores that need normalising."""

from pathlib import Path

from custom_plugins import BlinkingLightScorer, MyCustomPluginA, MyCustomPluginB

from mooring.plugins import VolumeBinding
from mooring.testing import check_plugin, make_cluster, make_node, make_pod

HERE = Path(__file__).parent


def read(name):
    return (HERE / name).read_text()


def test_two_profiles_in_one_process_prefer_opposite_nodes():
    nodes = [make_node("busy", cpu="4"), make_node("idle", cpu="4")]
    cluster = make_cluster(nodes, config=read("my-scheduler-config.yaml"))
    cluster.apply(make_pod("there", requests={"cpu": "2", "memory": "8Gi"}, node_name="busy"))
    requested = {"cpu": "500m", "memory": "1Gi"}
    cluster.apply(make_pod("spread", requests=requested))
    cluster.apply(make_pod("packed", requests=requested, scheduler_name="my-custom-scheduler"))
    cluster.schedule()
    assert cluster.node_of("spread") == "idle"
    assert cluster.node_of("packed") == "busy"
    busy, idle = cluster.decision("packed").scores["NodeResourcesFit"].raw
    assert busy > idle


def test_the_file_sets_the_time_for_binding_volumes():
    cluster = make_cluster(config=read("my-scheduler-config.yaml"))
    binding = cluster.plugin(VolumeBinding, "my-custom-scheduler")
    assert binding.args.bind_timeout_seconds == 60


def test_plugins_count_by_their_weights():
    nodes = [make_node("a", labels={"a": ""}), make_node("b", labels={"b": ""}), make_node("neither")]
    plugins = [MyCustomPluginA, MyCustomPluginB, BlinkingLightScorer]
    cluster = make_cluster(nodes, plugins=plugins, config=read("plugins.yaml"))
    cluster.apply(make_pod("web", requests={"cpu": "1"}))
    cluster.schedule()
    decision = cluster.decision("web")
    assert decision.scores["MyCustomPluginA"].weighted == [200, 0, 0]
    assert decision.scores["MyCustomPluginB"].weighted == [0, 100, 0]
    assert "PodTopologySpread" not in decision.scores
    assert cluster.node_of("web") == "a"


def test_the_most_blinking_lights_are_worth_100():
    lights = {"one": "3", "two": "12", "dark": "none"}
    nodes = [make_node(name, labels={"blinking-lights": count}) for name, count in lights.items()]
    plugins = [MyCustomPluginA, MyCustomPluginB, BlinkingLightScorer]
    cluster = make_cluster(nodes, plugins=plugins, config=read("plugins.yaml"))
    cluster.apply(make_pod("show", scheduler_name="blinking-scheduler"))
    cluster.schedule()
    decision = cluster.decision("show")
    score = decision.scores["BlinkingLightScorer"]
    assert dict(zip(decision.feasible, score.raw, strict=True)) == {"one": 3, "two": 12, "dark": 0}
    assert dict(zip(decision.feasible, score.normalized, strict=True)) == {"one": 25, "two": 100, "dark": 0}
    assert cluster.node_of("show") == "two"


def test_they_keep_the_contract():
    for plugin in (MyCustomPluginA, MyCustomPluginB, BlinkingLightScorer):
        check_plugin(plugin)
