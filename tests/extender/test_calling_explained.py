"""What extenders said, where somebody asks why: decisions, `mooring explain`, `mooring schedule`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from mooring.cli import main
from mooring.explain.explain import decisions
from mooring.explain.report import report
from mooring.explain.text import story, why
from tests.extender.calling_kit import FakeExtender, Setting, nodes, passing, pod, serving

MANIFESTS = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }
    for name in ("a", "b", "c")
] + [
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    }
]


def explained(setting: Setting) -> str:
    found = decisions(setting.scheduler, None, "default", "web")
    assert found is not None
    return "\n".join(report(found))


def test_refusals_name_the_extender_and_what_would_help() -> None:
    refusing = {"NodeNames": [], "FailedNodes": {"a": "no license", "b": "no license"}}
    with serving(filter=lambda request: refusing) as extender:
        setting = Setting({"urlPrefix": extender.url, "filterVerb": "filter", "nodeCacheCapable": True})
        setting.apply(*nodes("a", "b", "c"), pod())
        text = explained(setting)
        assert f"2 refused  extender {extender.url}: no license  (a, b)" in text
        assert f"1 refused  extender {extender.url}: gives no reason  (c)" in text
        assert f"2 nodes (a, b), refused by\n    extender {extender.url}: no license" in text
        assert "add a node" not in text  # a new one might be refused just as well
        assert f"    2  extender {extender.url}: no license" in "\n".join(story(setting.last))


def test_an_explanation_asks_each_extender_once() -> None:
    with serving(filter=passing()) as extender:
        setting = Setting({"urlPrefix": extender.url, "filterVerb": "filter"})
        setting.apply(*nodes("a", "b"), pod(requests={"cpu": "1"}, node_selector={"disk": "ssd"}))
        assert extender.requests == []  # no node was left to ask about
        setting.apply(pod("other", requests={"cpu": "1"}))
        extender.requests.clear()
        found = decisions(setting.scheduler, None, "default", "other")
        assert found is not None
        assert len(extender.requests) == 1


def test_scores_stand_among_the_plugins() -> None:
    with serving(filter=passing("a", "b"), score=lambda request: [{"Host": "b", "Score": 9}]) as extender:
        setting = Setting(
            {"urlPrefix": extender.url, "filterVerb": "filter", "prioritizeVerb": "score", "weight": 2}
        )
        setting.apply(*nodes("a", "b"), pod())
        assert f"extender {extender.url}" in "\n".join(story(setting.last))
        assert f"extender {extender.url} +180" in why(setting.last)


def test_an_explanation_of_a_failing_extender_says_so() -> None:
    setting = Setting({"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"})
    setting.apply(*nodes("a"), pod())
    assert 'an attempt would fail: Post "http://127.0.0.1:1/filter": dial tcp' in explained(setting)


@pytest.fixture
def command(tmp_path: Path) -> Any:
    def run(extender: FakeExtender, *args: str) -> Any:
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": [
                {
                    "urlPrefix": extender.url,
                    "filterVerb": "filter",
                    "prioritizeVerb": "score",
                    "bindVerb": "bind",
                    "weight": 1,
                }
            ],
        }
        (tmp_path / "config.yaml").write_bytes(msgspec.yaml.encode(config))
        manifests = "---\n".join(msgspec.yaml.encode(each).decode() for each in MANIFESTS)
        (tmp_path / "all.yaml").write_text(manifests)
        where = ["-f", str(tmp_path / "all.yaml"), "--config", str(tmp_path / "config.yaml")]
        return CliRunner().invoke(main, [args[0], *where, *args[1:]])

    return run


def test_manifests_are_scheduled_with_extenders_that_do_not_bind(command: Any) -> None:
    with serving(filter=passing("a", "b"), score=lambda request: [{"Host": "a", "Score": 10}]) as extender:
        result = command(extender, "schedule", "--explain", "web")
        assert result.exit_code == 0, result.output
        assert "default/web  a " in result.output
        assert f"extender {extender.url}: " in result.output
        assert [verb for verb, _ in extender.requests] == ["filter", "score"]


def test_a_pod_in_manifests_is_explained_with_extenders(command: Any) -> None:
    with serving(filter=passing("a", c="too hot"), score=lambda request: []) as extender:
        result = command(extender, "explain", "web")
        assert result.exit_code == 0, result.output
        assert f"extender {extender.url}: too hot" in result.output


def test_a_wrong_extender_ends_the_command(command: Any) -> None:
    class Nowhere:
        url = "nowhere"

    result = command(Nowhere(), "schedule")
    assert result.exit_code == 2
    assert 'extenders[0].urlPrefix: found "nowhere", expected http://' in result.output
