"""get, list and watch."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.verbs.request import WatchAnswer
from tests.sandbox.apiserver.kit import Direct, pod


def fill(direct: Direct, count: int) -> None:
    for number in range(count):
        labels = {"parity": "even" if number % 2 == 0 else "odd", "number": str(number)}
        body = {"metadata": {"name": f"c{number:02}", "labels": labels}}
        direct.ask("create", "configmaps", body=body)


def names(tree: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in tree["items"]]


def problem(direct: Direct, plural: str = "configmaps", **params: str) -> ApiError:
    with pytest.raises(ApiError) as caught:
        direct.ask("list", plural, **params)
    return caught.value


@pytest.mark.parametrize(
    ("selector", "count"),
    [
        ("parity=even", 5),
        ("parity==even", 5),
        ("parity!=even", 5),
        ("parity in (even,odd)", 10),
        ("parity notin ( even )", 5),
        ("parity", 10),
        ("!parity", 0),
        ("number>7", 2),
        ("number<3,parity=even", 2),
        ("parity=", 0),
        ("", 10),
    ],
)
def test_label_selectors(direct: Direct, selector: str, count: int) -> None:
    fill(direct, 10)
    assert len(names(direct.tree("list", "configmaps", labelSelector=selector))) == count


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("a===", "unable to parse requirement: found '=', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("(a)", "found '(', expected: !, identifier, or 'end of string'"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ],
)
def test_label_selectors_that_make_no_sense(direct: Direct, selector: str, message: str) -> None:
    error = problem(direct, labelSelector=selector)
    assert error.code == 400
    assert error.message.startswith(message)


def test_field_selectors(direct: Direct) -> None:
    direct.ask("create", "pods", body=pod("a", nodeName="n1"))
    direct.ask("create", "pods", body=pod("b", nodeName="n2"))
    direct.ask("create", "pods", body=pod("c"))

    def selected(fields: str) -> list[str]:
        return names(direct.tree("list", "pods", namespace="", fieldSelector=fields))

    assert selected("spec.nodeName=n1") == ["a"]
    assert selected("spec.nodeName!=,metadata.name!=a") == ["b"]
    assert selected("status.phase=Pending,metadata.namespace=default") == ["a", "b", "c"]
    assert selected("status.phase!=Pending") == []
    assert (
        problem(direct, "pods", fieldSelector="spec.zork=1").message == "field label not supported: spec.zork"
    )
    assert problem(direct, fieldSelector="zork=1").message == (
        '"zork" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )
    assert "can't understand 'zork'" in problem(direct, fieldSelector="zork").message


def test_pages_are_of_one_moment(direct: Direct) -> None:
    fill(direct, 5)
    first = direct.tree("list", "configmaps", limit="2")
    assert names(first) == ["c00", "c01"]
    assert first["metadata"]["remainingItemCount"] == 3
    direct.ask("delete", "configmaps", "c02")
    direct.ask("create", "configmaps", body={"metadata": {"name": "c03x"}})
    second = direct.tree("list", "configmaps", limit="2", continue_=first["metadata"]["continue"])
    assert names(second) == ["c02", "c03"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    third = direct.tree("list", "configmaps", limit="2", continue_=second["metadata"]["continue"])
    assert names(third) == ["c04"]
    assert "continue" not in third["metadata"]


def test_a_page_of_a_moment_that_is_forgotten() -> None:
    direct = Direct(window=5)
    fill(direct, 5)
    first = direct.tree("list", "configmaps", limit="2")
    for number in range(20):
        direct.ask("update", "configmaps", "c00", {"metadata": {"name": "c00"}, "data": {"n": str(number)}})
    with pytest.raises(ApiError) as caught:
        direct.ask("list", "configmaps", limit="2", continue_=first["metadata"]["continue"])
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    token = caught.value.continue_token  # type: ignore[attr-defined]
    assert names(direct.tree("list", "configmaps", continue_=token)) == ["c02", "c03", "c04"]


def test_a_continue_token_expires_after_minutes(direct: Direct) -> None:
    fill(direct, 3)
    first = direct.tree("list", "configmaps", limit="2")
    token = first["metadata"]["continue"]
    direct.clock.advance(20)
    direct.ask("create", "configmaps", body={"metadata": {"name": "later"}})
    assert names(direct.tree("list", "configmaps", limit="2", continue_=token)) == ["c02"]
    direct.clock.advance(301)
    with pytest.raises(ApiError) as caught:
        direct.ask("list", "configmaps", limit="2", continue_=token)
    assert caught.value.reason == "Expired"
    token = caught.value.continue_token  # type: ignore[attr-defined]
    last = direct.tree("list", "configmaps", continue_=token)
    assert names(last) == ["c02", "later"]
    assert last["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]


def test_versions_of_lists(direct: Direct) -> None:
    fill(direct, 2)
    version = direct.store.version
    fill_more = {"metadata": {"name": "later"}}
    direct.ask("create", "configmaps", body=fill_more)

    def listed(**params: str) -> list[str]:
        return names(direct.tree("list", "configmaps", **params))

    assert listed(resourceVersion=str(version), resourceVersionMatch="Exact") == ["c00", "c01"]
    assert listed(resourceVersion=str(version), resourceVersionMatch="NotOlderThan") == [
        "c00",
        "c01",
        "later",
    ]
    assert listed(resourceVersion="0") == ["c00", "c01", "later"]
    error = problem(direct, resourceVersion="9999")
    assert (error.code, error.reason, error.retry_after) == (504, "Timeout", 1)
    assert error.message == f"Timeout: Too large resource version: 9999, current: {direct.store.version}"
    assert problem(direct, resourceVersion="x").code == 400
    assert problem(direct, resourceVersionMatch="Exact").reason == "Invalid"
    assert problem(direct, continue_="abc").message.startswith("invalid continue token")
    assert problem(direct, limit="x").message == 'strconv.ParseInt: parsing "x": invalid syntax'


@pytest.mark.parametrize(
    ("rv", "start", "code"), [(1, "../../secrets/", 400), (2**64, "a", 400), (-1, "a", 200), (-5, "a", 200)]
)
def test_forged_continue_tokens(direct: Direct, rv: int, start: str, code: int) -> None:
    """As kube-apiserver answers them."""
    token = json.dumps({"v": "meta.k8s.io/v1", "rv": rv, "start": start}).encode()
    continued = base64.urlsafe_b64encode(token).decode()
    if code == 200:
        assert direct.tree("list", "configmaps", continue_=continued)["kind"] == "ConfigMapList"
    else:
        assert problem(direct, continue_=continued).code == code


# ---- watch ----------------------------------------------------------------------------------------


def watched(direct: Direct, act: Any, **params: str) -> list[tuple[str, str]]:
    """What a watch of config maps shows until its time-out: type and name, or BOOKMARK and its version."""
    params.setdefault("timeoutSeconds", "1")
    found: list[tuple[str, str]] = []

    async def follow() -> None:
        answer = direct.ask("watch", "configmaps", **params)
        assert isinstance(answer, WatchAnswer)
        asyncio.get_running_loop().call_soon(act)
        async for batch in answer.watching.batches():
            found.extend((type, record.name) for type, record in batch.changes)
            if batch.bookmark:
                found.append(("BOOKMARK", str(batch.bookmark)))
            if found and found[-1] == ("DELETED", "last"):
                answer.watching.close()

    asyncio.run(follow())
    return found


def ending(direct: Direct, *bodies: Any) -> Any:
    def act() -> None:
        for body in bodies:
            direct.ask("create", "configmaps", body=body)
        direct.ask("create", "configmaps", body={"metadata": {"name": "last", "labels": {"l": "1"}}})
        direct.ask("delete", "configmaps", "last")

    return act


def test_a_watch_without_a_version_starts_with_what_is_there(direct: Direct) -> None:
    fill(direct, 2)
    assert watched(direct, ending(direct)) == [
        ("ADDED", "c00"),
        ("ADDED", "c01"),
        ("ADDED", "last"),
        ("DELETED", "last"),
    ]


def test_a_watch_goes_on_from_a_version(direct: Direct) -> None:
    fill(direct, 2)
    version = direct.store.version - 1
    assert watched(direct, ending(direct), resourceVersion=str(version)) == [
        ("ADDED", "c01"),
        ("ADDED", "last"),
        ("DELETED", "last"),
    ]


def test_objects_come_into_view_and_leave_it(direct: Direct) -> None:
    fill(direct, 1)

    def act() -> None:
        for labels in ({"l": "1"}, {"l": "1", "more": "x"}, {}):
            body = {"metadata": {"name": "c00", "labels": labels}}
            direct.ask("update", "configmaps", "c00", body)
        ending(direct)()

    shown = watched(direct, act, resourceVersion=str(direct.store.version), labelSelector="l=1")
    assert shown == [
        ("ADDED", "c00"),
        ("MODIFIED", "c00"),
        ("DELETED", "c00"),
        ("ADDED", "last"),
        ("DELETED", "last"),
    ]


def test_initial_events_end_with_a_bookmark(direct: Direct) -> None:
    fill(direct, 1)
    version = str(direct.store.version)
    shown = watched(
        direct,
        ending(direct),
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    assert shown[:2] == [("ADDED", "c00"), ("BOOKMARK", version)]
    assert shown[-1] == ("DELETED", "last")


def test_a_watch_ends_with_a_bookmark_when_its_time_is_up(direct: Direct) -> None:
    direct.ask("create", "secrets", body={"metadata": {"name": "s"}})
    version = str(direct.store.version)  # nothing happens to config maps, yet the bookmark is up to date
    shown = watched(direct, lambda: None, resourceVersion="2", allowWatchBookmarks="true")
    assert shown == [("BOOKMARK", version)]


def test_a_watch_from_a_version_that_is_forgotten() -> None:
    direct = Direct(window=5)
    fill(direct, 30)
    with pytest.raises(ApiError) as caught:
        watched(direct, lambda: None, resourceVersion="9")
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    assert caught.value.message.startswith("too old resource version: 9 (")
