from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli.config import config
from mooring.config import load, loads
from tests.config.fake_registry import registry

HEAD = "apiVersion: kubescheduler.config.k8s.io/{}\nkind: KubeSchedulerConfiguration\n"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(config, list(arguments), obj=registry())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "scheduler.yaml"


def test_check_names_the_profiles_of_a_good_file(file: Path) -> None:
    file.write_text(HEAD.format("v1") + "profiles: [{schedulerName: a}, {schedulerName: b}]")
    result = run("check", str(file))
    assert (result.exit_code, result.stdout) == (0, f"{file}: ok (v1, 2 profiles: a, b)\n")
    assert result.stderr == ""


def test_check_warns_on_stderr(file: Path) -> None:
    file.write_text(
        HEAD.format("v1beta3") + "profiles: [{plugins: {score: {disabled: [{name: ImageLocalty}]}}}]"
    )
    result = run("check", str(file))
    assert result.exit_code == 0
    assert result.stdout == f"{file}: ok (v1beta3, 1 profile: default-scheduler)\n"
    assert result.stderr.startswith(f'warning: {file}: apiVersion "kubescheduler.config.k8s.io/v1beta3" is')
    assert "ImageLocalty" in result.stderr


def test_check_reports_problems_of_values_and_of_plugins_together(file: Path) -> None:
    file.write_text(
        HEAD.format("v1")
        + "parallelism: 0\nprofiles: [{plugins: {score: {enabled: [{name: Imagelocalty}]}}}]"
    )
    result = run("check", str(file))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"{file}:3: parallelism: Invalid value: 0: should be an integer value greater than zero\n"
        f'{file}:4: profiles[0].plugins.score.enabled[0]: unknown plugin "Imagelocalty"\n'
        '  hint: did you mean "ImageLocality"?\n'
    )


def test_view_prints_a_complete_v1_file(file: Path) -> None:
    file.write_text(HEAD.format("v1beta3") + "parallelism: 7")
    result = run("view", str(file))
    assert result.exit_code == 0
    again = loads(result.stdout)
    assert again.version == "v1"
    assert again.config == load(file).config
    assert "deprecated" in result.stderr


def test_check_finds_extenders_with_which_the_scheduler_would_not_start(file: Path) -> None:
    extenders = """extenders:
- {urlPrefix: "ftp://h", filterVerb: f}
- {urlPrefix: "https://h", filterVerb: f, tlsConfig: {caFile: absent.pem}}
"""
    file.write_text(HEAD.format("v1") + extenders)
    result = run("check", str(file))
    found = f'{file}:4: extenders[0].urlPrefix: found "ftp://h", expected http://HOST[:PORT][/PATH] or https://…\n'
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", found)
    file.write_text(HEAD.format("v1") + extenders.replace("ftp:", "http:"))
    result = run("check", str(file))
    assert (result.exit_code, result.stdout) == (1, "")
    place = f"{file}:5: extenders[1].tlsConfig"
    assert (
        result.stderr
        == f"{place}: absent.pem: certificate-authority: cannot be read: No such file or directory\n"
    )


@pytest.mark.parametrize("command", ["check", "view"])
def test_files_that_cannot_be_read_or_used(command: str, file: Path) -> None:
    missing = run(command, str(file))
    assert (missing.exit_code, missing.stderr) == (2, f"{file}: No such file or directory\n")
    file.write_text("nonsense")
    assert run(command, str(file)).exit_code == 1


LIMIT = """
from mooring.framework import Args, Plugin, Problem

class LimitArgs(Args):
    max_pods: int = 10

    def problems(self):
        if self.max_pods < 1:
            yield Problem("maxPods", "must be at least 1", self.max_pods)

class Limit(Plugin[LimitArgs]):
    name = "Limit"

    def score(self, state, pod, node):
        return 0
"""


@pytest.fixture
def limit(tmp_path: Path) -> str:
    (tmp_path / "limit_plugin.py").write_text(LIMIT)
    return f"--plugin={tmp_path}/limit_plugin.py:Limit"


def test_check_reads_the_args_of_a_plugin_that_no_profile_enables(file: Path, limit: str) -> None:
    file.write_text(HEAD.format("v1") + "profiles: [{pluginConfig: [{name: Limit, args: {maxPods: 0}}]}]")
    result = run("check", str(file), limit)
    assert result.exit_code == 1
    assert "pluginConfig[0].args.maxPods: Invalid value: 0: must be at least 1" in result.stderr


def test_check_warns_of_a_plugin_that_no_profile_enables(file: Path, limit: str) -> None:
    file.write_text(HEAD.format("v1") + "profiles: [{pluginConfig: [{name: Limit, args: {maxPods: 1}}]}]")
    result = run("check", str(file), limit)
    assert result.exit_code == 0
    assert 'args of plugin "Limit" have no effect: the profile does not enable it' in result.stderr
    assert f"warning: {file}: no profile enables plugin Limit" in result.stderr
    enabling = "profiles: [{plugins: {multiPoint: {enabled: [{name: Limit}]}}}]"
    file.write_text(HEAD.format("v1") + enabling)
    assert run("check", str(file), limit).stderr == ""


def test_view_shows_the_args_of_plugins_with_their_defaults(file: Path, limit: str) -> None:
    enabling = "profiles: [{plugins: {multiPoint: {enabled: [{name: Limit}]}}}]"
    file.write_text(HEAD.format("v1") + enabling)
    for arguments in ([str(file), limit], [limit]):  # without a file the plugin is enabled
        result = run("view", *arguments)
        assert result.exit_code == 0, result.stderr
        [profile] = loads(result.stdout).config.profiles
        assert {"maxPods": 10} in [entry.args for entry in profile.plugin_config if entry.name == "Limit"]
        assert "Limit" in [plugin.name for plugin in profile.plugins.multi_point.enabled]
