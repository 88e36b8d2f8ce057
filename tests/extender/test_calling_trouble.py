"""Extenders that are down, slow or mad: an ignorable one is left out, any other costs the pod an attempt."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from mooring.extender.calling import connections
from tests.extender.calling_kit import Setting, nodes, passing, pod, serving, waiting_for

DOWN = "http://127.0.0.1:1"

ODD_FILTERS: dict[str, tuple[Any, str]] = {
    "code 500": ((500, b"oops"), "failed filter with extender at URL {url}/filter, code 500"),
    "html": (b"<html>", 'extender "{url}" answered filter with an invalid body: JSON is malformed'),
    "nothing": (b"", 'extender "{url}" answered filter with an invalid body: '),
    "a list": ([], 'extender "{url}" answered filter with an invalid body: Expected `object`, got `array`'),
    "deep": (
        b'{"FailedNodes":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        'extender "{url}" answered filter with an invalid body: maximum recursion depth exceeded',
    ),
    "not UTF-8": (b'{"Error":"\xff"}', 'extender "{url}" answered filter with an invalid body: '),
    "names not UTF-8": (b'{"NodeNames":["\xff"]}', "answered filter with an invalid body: NodeNames: "),
    "numbers": ({"NodeNames": [7]}, "NodeNames: Expected `str`, got `int` - at `$[0]`"),
    "odd nodes": ({"Nodes": {"items": [{"metadata": {}}]}}, "Nodes: Object missing required field `name`"),
    "its own error": ({"Error": "all node do not have label x"}, "all node do not have label x"),
    "an unknown node": (
        {"NodeNames": ["a", "zebra"]},
        'extender "{url}" claims a filtered node "zebra" which is not found in the input node list',
    ),
}

ODD_SCORES: dict[str, tuple[Any, str]] = {
    "not a number": (b'[{"Host":"a","Score":NaN}]', "answered score with an invalid body: JSON is malformed"),
    "nothing": (b"", "answered score with an invalid body: "),
    "text": ([{"Host": "a", "Score": "ten"}], "Expected `int`, got `str` - at `$[0].Score`"),
    "a fraction": ([{"Host": "a", "Score": 1.5}], "Expected `int`, got `float`"),
    "beyond 64 bits": ([{"Host": "a", "Score": 10**30}], "answered score with an invalid body: "),
    "huge": ([{"Host": "a", "Score": 2**62}], 'gave node "a" the score 4611686018427387904'),
    "huge in sum": ([{"Host": "a", "Score": 2**55}] * 3, 'gave node "a" the score'),
    "an error": ((503, b""), "failed score with extender at URL {url}/score, code 503"),
}


def always(answer: Any) -> Callable[[Any], Any]:
    return lambda request: answer


@pytest.mark.parametrize("kind", ODD_FILTERS)
def test_a_filter_that_goes_wrong_costs_the_attempt(kind: str) -> None:
    answer, message = ODD_FILTERS[kind]
    with serving(filter=always(answer)) as extender:
        setting = Setting({"urlPrefix": extender.url, "filterVerb": "filter", "nodeCacheCapable": True})
        setting.apply(*nodes("a"), pod())
        assert setting.last.result == "error"
        assert message.format(url=extender.url) in setting.message("web")
        assert message.format(url=extender.url) in setting.cluster.events[-1].note
        assert setting.pod("web").status.conditions[0].reason == "SchedulerError"
        extender.verbs["filter"] = passing("a")
        setting.advance(60.0)
        assert setting.node_of("web") == "a"


@pytest.mark.parametrize("kind", ODD_FILTERS)
def test_a_filter_that_may_be_ignored_is(kind: str) -> None:
    with serving(filter=always(ODD_FILTERS[kind][0])) as extender:
        ask = {"urlPrefix": extender.url, "filterVerb": "filter", "ignorable": True}
        setting = Setting({**ask, "nodeCacheCapable": True})
        setting.apply(*nodes("a"), pod())
        assert setting.node_of("web") == "a"


@pytest.mark.parametrize("kind", ODD_SCORES)
def test_absurd_scores_cost_the_attempt(kind: str) -> None:
    answer, message = ODD_SCORES[kind]
    with serving(score=always(answer)) as extender:
        setting = Setting({"urlPrefix": extender.url, "prioritizeVerb": "score", "weight": 1})
        setting.apply(*nodes("a", "b"), pod())
        assert message.format(url=extender.url) in setting.message("web")
        extender.verbs["score"] = always([{"Host": "b", "Score": 100}])
        setting.advance(60.0)
        assert setting.node_of("web") == "b"


@pytest.mark.parametrize("kind", ODD_SCORES)
def test_absurd_scores_that_may_be_ignored_are(kind: str) -> None:
    with (
        serving(score=always(ODD_SCORES[kind][0])) as odd,
        serving(score=always([{"Host": "b", "Score": 100}])) as good,
    ):
        ask = {"prioritizeVerb": "score", "weight": 1}
        setting = Setting({"urlPrefix": odd.url, **ask, "ignorable": True}, {"urlPrefix": good.url, **ask})
        setting.apply(*nodes("a", "b"), pod())
        assert setting.node_of("web") == "b"


def test_an_extender_that_is_down_is_named() -> None:
    setting = Setting({"urlPrefix": DOWN, "filterVerb": "filter"})
    setting.apply(*nodes("a"), pod())
    assert setting.message("web") == (
        f'Post "{DOWN}/filter": dial tcp 127.0.0.1:1: connect: connection refused'
    )


def test_an_unknown_host_is_named() -> None:
    setting = Setting({"urlPrefix": "http://nobody.invalid", "filterVerb": "filter"})
    setting.apply(*nodes("a"), pod())
    assert 'Post "http://nobody.invalid/filter": dial tcp: lookup nobody.invalid: ' in setting.message("web")


def test_a_slow_extender_is_given_up_after_its_time() -> None:
    with waiting_for(30) as wait, serving(filter=lambda request: wait()) as extender:
        setting = Setting({"urlPrefix": extender.url, "filterVerb": "filter", "httpTimeout": "50ms"})
        setting.apply(*nodes("a"), pod())
        assert setting.message("web") == (
            f'Post "{extender.url}/filter": context deadline exceeded '
            "(Client.Timeout exceeded while awaiting headers)"
        )


def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LARGEST_ANSWER", 1000)
    with serving(filter=always(b" " * 5000)) as extender:
        setting = Setting({"urlPrefix": extender.url, "filterVerb": "filter"})
        setting.apply(*nodes("a"), pod())
        assert "an answer longer than 1000 bytes" in setting.message("web")


def test_trouble_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mooring.extender")
    with serving(filter=always((500, b""))) as extender:
        setting = Setting({"urlPrefix": extender.url, "filterVerb": "filter", "ignorable": True})
        setting.apply(*nodes("a"), *(pod(f"p{i}") for i in range(3)))
        extender.verbs["filter"] = passing("a")
        setting.apply(*(pod(f"q{i}") for i in range(3)))
        extender.verbs["filter"] = always(b"?")
        setting.apply(*(pod(f"r{i}") for i in range(3)))
        told = [(record.levelname, record.getMessage()) for record in caplog.records]
        url = extender.url
        assert [level for level, _ in told] == ["WARNING", "INFO", "WARNING"]
        assert told[0][1] == (
            f"extender {url}: filter: failed filter with extender at URL {url}/filter, code 500; "
            "pods are scheduled without it until it answers"
        )
        assert told[1][1] == f"extender {url}: filter: answers again"
        assert len(setting.cluster.pods) == 9
        assert all(each.spec.node_name == "a" for each in setting.cluster.pods.values())


def test_trouble_with_one_verb_is_not_over_when_another_answers(caplog: pytest.LogCaptureFixture) -> None:
    with serving(filter=passing("a", "b"), score=always((500, b""))) as extender:
        setting = Setting(
            {
                "urlPrefix": extender.url,
                "filterVerb": "filter",
                "prioritizeVerb": "score",
                "weight": 1,
                "ignorable": True,
            }
        )
        setting.apply(*nodes("a", "b"), *(pod(f"p{i}") for i in range(3)))
        assert len(caplog.records) == 1


def test_a_failing_extender_is_no_reason_to_hold_up_pods_that_it_does_not_concern() -> None:
    managed = [{"name": "example.com/gpu", "ignoredByScheduler": True}]
    setting = Setting({"urlPrefix": DOWN, "filterVerb": "filter", "managedResources": managed})
    setting.apply(*nodes("a"), pod("gpu", requests={"example.com/gpu": 1}), pod("plain"))
    assert (setting.node_of("gpu"), setting.node_of("plain")) == ("", "a")


def test_a_password_in_the_url_is_used_and_not_told() -> None:
    with serving(filter=always((500, b""))) as extender:
        url = extender.url.replace("http://", "http://me:secret@")
        setting = Setting({"urlPrefix": url, "filterVerb": "filter"})
        setting.apply(*nodes("a"), pod())
        assert extender.headers[0]["Authorization"] == "Basic bWU6c2VjcmV0"
        assert "secret" not in setting.message("web")
        assert "me:xxxxx@127.0.0.1" in setting.message("web")


@pytest.mark.parametrize("kind", ["deep", "not UTF-8"])
def test_an_unreadable_answer_is_one_line_in_the_log(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with serving(filter=always(ODD_FILTERS[kind][0])) as extender:
        setting = Setting({"urlPrefix": extender.url, "filterVerb": "filter", "nodeCacheCapable": True})
        setting.apply(*nodes("a"), pod())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "Traceback" not in caplog.text
