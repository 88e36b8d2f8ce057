"""Reading v1 files: strictness, places, defaults, validation."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.config import (
    DEFAULT_MULTI_POINT,
    ConfigError,
    Duration,
    Finding,
    default_config,
    from_object,
    load,
    loads,
    to_yaml,
)
from tests.config.fake_registry import v1

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def findings(text: str) -> list[Finding]:
    with pytest.raises(ConfigError) as caught:
        loads(text, "s.yaml")
    return caught.value.findings


def errors(text: str) -> list[str]:
    return [str(finding) for finding in findings(text)]


def messages(**fields: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        from_object(v1(**fields))
    return [f"{finding.field}: {finding.message}" for finding in caught.value.findings]


# ---- strictness and places


def test_every_problem_is_reported_with_its_line_in_the_order_of_the_file() -> None:
    text = HEAD + (
        "parallelism: abc\n"
        "leaderElection:\n"
        "  leaseDuration: 15\n"
        "  leaderElct: true\n"
        "podInitialBackoffSeconds: 0\n"
        "parallelism: 3\n"
    )
    assert errors(text) == [
        's.yaml:3: parallelism: expected an integer, found string "abc"',
        's.yaml:5: leaderElection.leaseDuration: expected a duration such as "15s", found number 15',
        's.yaml:6: leaderElection.leaderElct: unknown field "leaderElct"\n'
        '  hint: did you mean "leaderElect"?',
        "s.yaml:7: podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
        's.yaml:8: parallelism: duplicate field "parallelism" in the document\n'
        "  hint: it was given before on line 3",
    ]


def test_lines_do_not_depend_on_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.config.tree.Loader", yaml.SafeLoader)
    assert errors(HEAD + "extenders:\n- weight: x\n  urlPrefix: http://h\n") == [
        's.yaml:4: extenders[0].weight: expected an integer, found string "x"'
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("parallelism: 1.5", "expected an integer, found number 1.5"),
        ("parallelism: true", "expected an integer, found true"),
        ("parallelism: 3000000000", "expected an integer <= 2147483647, found number 3000000000"),
        ("enableProfiling: 'yes'", 'expected true or false, found string "yes"'),
        ("profiles: {}", "expected a list, found a mapping"),
        ("profiles: [a]", 'expected a mapping, found string "a"'),
        ("healthzBindAddress: 10251", "expected a string, found number 10251"),
        ("leaderElection: []", "expected a mapping, found a list"),
    ],
)
def test_wrong_types_say_what_was_expected_and_found(line: str, message: str) -> None:
    (finding,) = findings(HEAD + line)
    assert (finding.line, finding.message) == (3, message)


def test_lines_survive_the_merge_with_the_default_plugins() -> None:
    text = HEAD + (
        "profiles:\n"
        "- plugins:\n"
        "    multiPoint:\n"
        "      enabled:\n"
        "      - weight: 1\n"
        "        name: ''\n"
        "      - name: NodeName\n"
    )
    assert errors(text) == ["s.yaml:8: profiles[0].plugins.multiPoint.enabled[0].name: Required value"]


def test_what_could_not_be_decoded_is_not_blamed_twice() -> None:
    (finding,) = findings(HEAD + "profiles: [{schedulerName: a}, {schedulerName: 3}]")
    assert finding.field == "profiles[1].schedulerName"


def test_yaml_numbers_aliases_and_merges() -> None:
    text = HEAD + "clientConnection: &c {qps: 1e2}\nprofiles: [{schedulerName: &n a}]\n"
    assert loads(text).config.client_connection.qps == 100
    merged = "clientConnection:\n  burst: 7\n  <<: {burst: 8, qps: 9}\n"
    assert (loads(HEAD + merged).config.client_connection.burst) == 7
    assert (loads(HEAD + merged).config.client_connection.qps) == 9


def test_json_is_yaml_even_with_tabs() -> None:
    config = loads(json.dumps(v1(parallelism=3), indent="\t")).config
    assert config.parallelism == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty, expected a KubeSchedulerConfiguration"),
        ("# nothing\n", "the file is empty, expected a KubeSchedulerConfiguration"),
        ("- a", "expected a KubeSchedulerConfiguration, found a list"),
        ("kind: Pod\napiVersion: v1", "couldn't decode as KubeSchedulerConfiguration, got v1, Kind=Pod"),
        ("a: [", "not valid YAML: while parsing a flow node, did not find expected node content"),
        ("[" * 5000, "not valid YAML: nested too deeply"),
        (
            HEAD.replace("/v1", "/v2"),
            'no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/v2"',
        ),
        (HEAD + "---\n" + HEAD, "found 2 YAML documents, expected one KubeSchedulerConfiguration"),
    ],
)
def test_files_that_are_something_else(text: str, message: str) -> None:
    assert [finding.message for finding in findings(text)] == [message]


def test_aliases_that_expand_without_bound_are_refused() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for this, last in zip("bcdefgh", "abcdefg", strict=True):
        bomb += f"{this}: &{this} [{', '.join([f'*{last}'] * 10)}]\n"
    assert any("expand without bound" in finding.message for finding in findings(HEAD + bomb))
    assert any("expand without bound" in finding.message for finding in findings(HEAD + "x: &x [*x]\n"))


def test_a_config_map_is_told_which_key_to_use() -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"sched.yaml": HEAD}}
    (finding,) = findings(yaml.safe_dump(config_map))
    assert finding.hint == (
        'the ConfigMap holds one under data["sched.yaml"]: save that value as a file of its own'
    )


def test_files_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(b"a: b\nc: \xff\n")
    with pytest.raises(ConfigError, match=r"s\.yaml:2: not valid UTF-8: byte 0xff"):
        load(path)


# ---- defaults


def test_defaults_are_kube_schedulers() -> None:
    config = default_config()
    assert (config.parallelism, config.percentage_of_nodes_to_score) == (16, 0)
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (1, 10)
    assert (config.enable_profiling, config.enable_contention_profiling) == (True, True)
    assert (config.delay_cache_until_active, config.extenders) == (False, [])
    election = config.leader_election
    assert election.leader_elect
    assert list(map(str, (election.lease_duration, election.renew_deadline, election.retry_period))) == [
        "15s",
        "10s",
        "2s",
    ]
    assert election.resource_lock == "leases"
    assert (election.resource_namespace, election.resource_name) == ("kube-system", "kube-scheduler")
    client = config.client_connection
    assert (client.content_type, client.qps, client.burst) == ("application/vnd.kubernetes.protobuf", 50, 100)
    (profile,) = config.profiles
    assert profile.scheduler_name == "default-scheduler"
    assert [(p.name, p.weight) for p in profile.plugins.multi_point.enabled] == list(DEFAULT_MULTI_POINT)


def test_zeros_stand_for_defaults_where_kubernetes_has_it_so() -> None:
    config = from_object(
        v1(
            clientConnection={"qps": 0, "burst": 0, "contentType": ""},
            leaderElection={"leaseDuration": "0s", "resourceName": ""},
            extenders=[{"urlPrefix": "http://h", "httpTimeout": "0s"}],
        )
    ).config
    assert config == from_object(v1(extenders=[{"urlPrefix": "http://h"}])).config
    assert config.extenders[0].http_timeout == Duration.parse("5s")


def test_contention_profiling_is_on_only_with_profiling() -> None:
    assert not from_object(v1(enableProfiling=False)).config.enable_contention_profiling
    both = v1(enableProfiling=False, enableContentionProfiling=True)
    assert from_object(both).config.enable_contention_profiling


def test_the_default_scheduler_name_needs_a_single_profile() -> None:
    assert from_object(v1(profiles=[{}])).config.profiles[0].scheduler_name == "default-scheduler"
    assert messages(profiles=[{"schedulerName": "a"}, {}]) == ["profiles[1].schedulerName: Required value"]


def test_default_args_are_added_for_enabled_plugins_only() -> None:
    sets = {"multiPoint": {"disabled": [{"name": "NodeAffinity"}]}}
    given = [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 5}}]
    (profile,) = from_object(v1(profiles=[{"plugins": sets, "pluginConfig": given}])).config.profiles
    assert [entry.name for entry in profile.plugin_config] == [
        "VolumeBinding",
        "DefaultPreemption",
        "DynamicResources",
        "InterPodAffinity",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
        "PodTopologySpread",
    ]


# ---- validation


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"parallelism": 0},
            "parallelism: Invalid value: 0: should be an integer value greater than zero",
        ),
        (
            {"percentageOfNodesToScore": 101},
            "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        ),
        (
            {"profiles": [{"percentageOfNodesToScore": -1}]},
            "profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
        ),
        (
            {"podInitialBackoffSeconds": 20},
            "podMaxBackoffSeconds: Invalid value: 10: "
            "must be greater than or equal to PodInitialBackoffSeconds",
        ),
        (
            {"leaderElection": {"renewDeadline": "15s"}},
            'leaderElection.leaseDuration: Invalid value: "15s": must be greater than `RenewDeadline`',
        ),
        (
            {"leaderElection": {"retryPeriod": "-1s"}},
            'leaderElection.retryPeriod: Invalid value: "-1s": must be greater than zero',
        ),
        (
            {"leaderElection": {"resourceLock": "endpoints"}},
            'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"',
        ),
        (
            {"clientConnection": {"burst": -1}},
            "clientConnection.burst: Invalid value: -1: must be non-negative",
        ),
        (
            {"metricsBindAddress": "nowhere"},
            'metricsBindAddress: Invalid value: "nowhere": '
            "must be an address and port, such as 0.0.0.0:10251",
        ),
        (
            {"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
            'profiles[1].schedulerName: Duplicate value: "a"',
        ),
        (
            {"profiles": [{"pluginConfig": [{"name": "X"}, {"name": "X"}]}]},
            'profiles[0].pluginConfig[1]: Duplicate value: "X"',
        ),
        (
            {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "EBSLimits"}]}}}]},
            'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version "v1" '
            '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")',
        ),
        (
            {"profiles": [{"plugins": {"queueSort": {"enabled": [{"name": "A"}, {"name": "B"}]}}}]},
            "profiles[0].plugins.queueSort.enabled: Invalid value: 2: "
            "only one queue sort plugin can be enabled",
        ),
        (
            {
                "profiles": [
                    {"schedulerName": "a"},
                    {"schedulerName": "b", "plugins": {"queueSort": {"enabled": [{"name": "A"}]}}},
                ]
            },
            'profiles[1].plugins.queueSort: Invalid value: ["A"]: must be the same for all profiles',
        ),
    ],
)
def test_validation_speaks_kube_schedulers_words(fields: dict[str, Any], expected: str) -> None:
    assert messages(**fields) == [expected]


def test_leader_election_is_checked_only_where_it_is_on() -> None:
    from_object(v1(leaderElection={"leaderElect": False, "renewDeadline": "20s"}))


def test_extenders_are_checked() -> None:
    assert messages(
        extenders=[
            {
                "urlPrefix": "http://h",
                "prioritizeVerb": "prioritize",
                "bindVerb": "bind",
                "managedResources": [{"name": "cpu"}, {"name": "example.com/gpu"}],
            },
            {
                "urlPrefix": "https://user:secret@h/a b",
                "bindVerb": "bind",
                "managedResources": [{"name": "example.com/gpu"}, {"name": "kubernetes.io/x"}],
                "tlsConfig": {"insecure": True, "caFile": "ca.pem"},
            },
        ]
    ) == [
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
        'extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name',
        'extenders[1].urlPrefix: found "https://user:xxxxx@h/a b", '
        "expected http://HOST[:PORT][/PATH] or https://…",
        "extenders[1].tlsConfig.insecure: Invalid value: true: "
        "specifying a root certificates file with the insecure flag is not allowed",
        'extenders[1].managedResources[0].name: Invalid value: "example.com/gpu": '
        "duplicate extender managed resource name",
        'extenders[1].managedResources[1].name: Invalid value: "kubernetes.io/x": '
        "is an invalid extended resource name",
        'extenders: Invalid value: "found 2 extenders implementing bind": '
        "only one extender can implement bind",
    ]


# ---- writing

FULL = v1(
    parallelism=4,
    leaderElection={"leaseDuration": "1m30s"},
    healthzBindAddress="127.0.0.1:10251",
    percentageOfNodesToScore=50,
    profiles=[
        {
            "schedulerName": "a",
            "percentageOfNodesToScore": 0,
            "plugins": {
                "multiPoint": {
                    "enabled": [{"name": "NodeAffinity"}, {"name": "Mine", "weight": 4}],
                    "disabled": [{"name": "ImageLocality"}],
                },
                "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "Mine", "weight": 7}]},
            },
            "pluginConfig": [
                {"name": "Mine", "args": {"favorite_color": "#326CE5", "nothing": None}},
                {
                    "name": "NodeAffinity",
                    "args": {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
                },
                {"name": "DynamicResources", "args": {"filterTimeout": "1500ms"}},
            ],
        },
        {"schedulerName": "b"},
    ],
    extenders=[
        {
            "urlPrefix": "https://x",
            "enableHTTPS": True,
            "httpTimeout": "100ms",
            "tlsConfig": {"caData": "AAEC"},
            "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
        }
    ],
)


@pytest.mark.parametrize("document", [v1(), FULL], ids=["default", "full"])
def test_what_is_written_loads_back_as_it_was(document: dict[str, Any]) -> None:
    config = from_object(document).config
    again = loads(to_yaml(config))
    assert again.config == config
    assert again.warnings == []
    assert to_yaml(again.config) == to_yaml(config)


def test_written_files_say_everything() -> None:
    written = yaml.safe_load(to_yaml(from_object(FULL).config))
    assert written["leaderElection"]["leaseDuration"] == "1m30s"
    assert written["extenders"][0]["tlsConfig"] == {"caData": "AAEC"}
    first = written["profiles"][0]
    assert first["percentageOfNodesToScore"] == 0
    assert first["plugins"]["multiPoint"]["enabled"][-1] == {"name": "Mine", "weight": 4}
    args = {entry["name"]: entry["args"] for entry in first["pluginConfig"]}
    assert args["Mine"] == {"favorite_color": "#326CE5", "nothing": None}
    assert args["DynamicResources"] == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "DynamicResourcesArgs",
        "filterTimeout": "1.5s",
        "bindingTimeout": "10m0s",
    }
