"""Who may pass: tokens and certificates, rights, how long answers hold, and an API server that is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.client.api_errors import ApiError, Unreachable
from mooring.serving import gate as gates
from mooring.serving.gate import ExpiringCache, Gate, OpenPaths
from mooring.serving.messages import ClientCertificate, Request, User
from mooring.serving.settings import EndpointError, EndpointSettings
from tests.client import virtual_time
from tests.serving.kit import TOKEN, Reply, Reviewer, run

UNAUTHORIZED = (401, "Unauthorized", "Unauthorized")


class Entrance:
    """A gate with a clock to turn; answers hold for 10, 20 and 30 seconds."""

    def __init__(self, **more: Any) -> None:
        self.now = 1000.0
        self.reviewer = Reviewer()
        settings = EndpointSettings(
            authentication_cache_seconds=10,
            authorization_allowed_cache_seconds=20,
            authorization_denied_cache_seconds=30,
            **more,
        )
        self.gate = Gate(
            settings, self.reviewer, self.reviewer, clock=lambda: self.now, wall_clock=lambda: self.now
        )

    async def try_(
        self,
        token: str = "",
        path: str = "/metrics",
        method: str = "GET",
        certificate: ClientCertificate | None = None,
        authorization: str = "",
    ) -> tuple[int, str, str] | None:
        """The refusal: code, reason and message; None where the request may pass."""
        shown = authorization or (f"Bearer {token}" if token else "")
        headers = {b"authorization": shown.encode()} if shown else {}
        answer = await self.gate.reject(Request(method, path, {}, headers, certificate))
        return None if answer is None else Reply(answer.status, {}, answer.body).refusal

    def asked(self) -> list[str]:
        """What the API server was asked since the last look."""
        kinds = [tree["kind"] for tree in self.reviewer.reviewed]
        self.reviewer.reviewed.clear()
        return kinds


Scenario = Callable[[Entrance], Awaitable[None]]


def at_the_gate(scenario: Scenario, **more: Any) -> None:
    async def main() -> None:
        await scenario(Entrance(**more))

    run(main())


# ---- whose token, and what they may


def test_without_a_token_nobody_is_asked() -> None:
    async def scenario(it: Entrance) -> None:
        for shown in ("", "Basic YTpi", "Bearer", "Bearer  ", TOKEN):
            assert await it.try_(authorization=shown) == UNAUTHORIZED
        assert it.asked() == []

    at_the_gate(scenario)


def test_a_token_that_nobody_knows() -> None:
    async def scenario(it: Entrance) -> None:
        assert await it.try_("wrong") == UNAUTHORIZED
        assert it.asked() == ["TokenReview"]

    at_the_gate(scenario)


def test_a_token_without_the_right() -> None:
    async def scenario(it: Entrance) -> None:
        it.reviewer.allow("/configz")
        refusal = await it.try_(TOKEN)
        assert refusal == (403, "Forbidden", 'forbidden: User "reader" cannot get path "/metrics"')

    at_the_gate(scenario)


def test_a_token_with_the_right() -> None:
    async def scenario(it: Entrance) -> None:
        it.reviewer.rights.add(("reader", "get", "/metrics"))
        for scheme in ("Bearer", "bearer", "BEARER"):
            assert await it.try_(authorization=f"{scheme} {TOKEN}") is None
        refusal = await it.try_(TOKEN, method="HEAD")
        assert refusal == (403, "Forbidden", 'forbidden: User "reader" cannot head path "/metrics"')

    at_the_gate(scenario)


def test_all_that_is_known_of_a_user_goes_into_the_second_question() -> None:
    async def scenario(it: Entrance) -> None:
        user = {"username": "u", "uid": "7", "groups": ["a", "b"], "extra": {"k": ["v", "w"]}}
        it.reviewer.users[TOKEN] = user
        await it.try_(TOKEN, "/debug/decisions/default/web")
        [whose, may] = it.reviewer.reviewed
        assert whose["spec"] == {"token": TOKEN}
        assert may["spec"] == {
            "user": "u",
            "uid": "7",
            "groups": ["a", "b"],
            "extra": {"k": ["v", "w"]},
            "nonResourceAttributes": {"path": "/debug/decisions/default/web", "verb": "get"},
        }

    at_the_gate(scenario)


def test_masters_may_everything() -> None:
    async def scenario(it: Entrance) -> None:
        it.reviewer.users[TOKEN] = {"username": "admin", "groups": ["system:masters"]}
        assert await it.try_(TOKEN) is None
        assert it.asked() == ["TokenReview"]

    at_the_gate(scenario)


def test_what_a_refusal_quotes_is_no_html() -> None:
    async def scenario(it: Entrance) -> None:
        refusal = await it.try_(TOKEN, "/<script>&")
        assert refusal is not None
        assert refusal[2].endswith('path "/&lt;script&gt;&amp;"')

    at_the_gate(scenario)


# ---- certificates


def test_a_certificate_says_who_asks() -> None:
    async def scenario(it: Entrance) -> None:
        shown = ClientCertificate(User(username="scraper", groups=("monitoring",)), expires=it.now + 60)
        it.reviewer.allow("/metrics", user="scraper")
        assert await it.try_(certificate=shown) is None
        assert it.reviewer.reviewed[0]["spec"]["groups"] == ["monitoring"]
        assert it.asked() == ["SubjectAccessReview"]
        it.now += 60
        assert await it.try_(certificate=shown) == UNAUTHORIZED
        it.reviewer.allow("/metrics")
        assert await it.try_(TOKEN, certificate=shown) is None

    at_the_gate(scenario)


# ---- how long answers hold


def test_answers_hold_for_as_long_as_the_settings_say() -> None:
    async def scenario(it: Entrance) -> None:
        it.reviewer.allow("/metrics")
        for path in ("/metrics", "/configz"):
            await it.try_(TOKEN, path)
        assert it.asked() == ["TokenReview", "SubjectAccessReview", "SubjectAccessReview"]
        expected = {9.9: [], 10.1: ["TokenReview"], 20.3: ["TokenReview", "SubjectAccessReview"]}
        for later, asked in expected.items():  # allowed: 20 s
            it.now = 1000 + later
            assert await it.try_(TOKEN) is None
            assert it.asked() == asked
        it.now = 1029.9  # denied: 30 s
        assert await it.try_(TOKEN, "/configz") is not None
        assert it.asked() == []
        it.now = 1030.5
        assert await it.try_(TOKEN, "/configz") is not None
        assert it.asked() == ["TokenReview", "SubjectAccessReview"]

    at_the_gate(scenario)


def test_a_token_that_nobody_knows_stays_unknown_for_a_while() -> None:
    async def scenario(it: Entrance) -> None:
        await it.try_("wrong")
        it.reviewer.users["wrong"] = {"username": "reader"}
        it.reviewer.allow("/metrics")
        assert await it.try_("wrong") == UNAUTHORIZED
        it.now += 10
        assert await it.try_("wrong") is None

    at_the_gate(scenario)


def test_answers_are_of_one_user_one_path_and_one_verb() -> None:
    async def scenario(it: Entrance) -> None:
        it.reviewer.users["other"] = {"username": "other"}
        it.reviewer.rights.add(("reader", "get", "/metrics"))
        assert await it.try_(TOKEN) is None
        assert await it.try_("other") is not None
        assert await it.try_(TOKEN, "/configz") is not None
        assert await it.try_(TOKEN, method="HEAD") is not None

    at_the_gate(scenario)


def test_no_answer_holds_where_it_may_not() -> None:
    memory: ExpiringCache[str] = ExpiringCache(lambda: 0.0)
    memory.put(memory.key(b"a"), "x", 0)
    assert memory.get(memory.key(b"a")) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 4), st.integers(0, 3)), max_size=40
    )  # which, for how long, how much later
)
def test_memory_forgets_what_is_over_and_the_oldest(puts: list[tuple[int, int, int]]) -> None:
    now = 0
    memory: ExpiringCache[int] = ExpiringCache(lambda: float(now), most=3)
    model: dict[int, tuple[int, int]] = {}  # which → until when, value; the oldest first
    for value, (which, seconds, later) in enumerate(puts):
        now += later
        memory.put(memory.key(bytes([which])), value, seconds)
        model.pop(which, None)
        model[which] = (now + seconds, value)
        if len(model) > 3:
            del model[next(iter(model))]
        for each in range(6):
            found = memory.get(memory.key(bytes([each])))
            until, kept = model.get(each, (0, 0))
            assert found == ((kept,) if until > now else None)
            if until <= now:
                model.pop(each, None)
        assert len(memory) == len(model)


def test_what_is_remembered_of_a_token_does_not_tell_it() -> None:
    async def scenario(it: Entrance) -> None:
        it.reviewer.allow("/metrics")
        await it.try_(TOKEN)
        kept = it.gate._users._entries, it.gate._verdicts._entries
        assert len(kept[0]) == len(kept[1]) == 1
        assert TOKEN not in repr(kept)
        assert Entrance().gate._users.key(b"x") != Entrance().gate._users.key(b"x")

    at_the_gate(scenario)


# ---- the API server is away, or does not let us ask


@pytest.mark.parametrize(
    "trouble",
    [
        Unreachable("https://10.0.0.1:6443", "connection refused"),
        ApiError(503, "ServiceUnavailable", "apiserver is shutting down"),
        ApiError(403, "Forbidden", 'User "x" cannot create resource "tokenreviews"'),
        ApiError(401, "Unauthorized", "Unauthorized"),
    ],
    ids=["unreachable", "unavailable", "forbidden", "unauthorized"],
)
def test_where_the_api_server_does_not_say_nobody_may_pass(
    trouble: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(it: Entrance) -> None:
        it.reviewer.allow("/metrics")
        it.reviewer.refusals["create", "tokenreviews"] = trouble
        for _ in range(3):
            refusal = await it.try_(TOKEN)
            assert refusal is not None
            assert refusal[:2] == (500, "InternalError")
            assert "tokenreviews.authentication.k8s.io" in refusal[2]
            assert "10.0.0.1" not in refusal[2]
        assert await it.try_(path="/healthz") is None
        [record] = caplog.records  # told once
        assert str(trouble) in record.getMessage()
        if isinstance(trouble, ApiError) and trouble.code == 403:
            hint = 'grant the verb "create" on "tokenreviews" in API group "authentication.k8s.io"'
            assert hint in record.getMessage()
        del it.reviewer.refusals["create", "tokenreviews"]
        assert await it.try_(TOKEN) is None
        it.reviewer.refusals["create", "subjectaccessreviews"] = trouble
        assert await it.try_(TOKEN) is None  # said before, and it holds
        refusal = await it.try_(TOKEN, "/configz")
        assert refusal is not None
        assert (refusal[0], len(caplog.records)) == (500, 2)

    at_the_gate(scenario)


def test_patience_with_an_api_server_ends() -> None:
    async def main() -> None:
        it = Entrance()

        async def sleep(verb: str, answered: bool) -> None:
            await asyncio.sleep(3600)

        it.reviewer.meddle = sleep
        before = virtual_time.now()
        refusal = await it.try_(TOKEN)
        assert refusal is not None
        assert refusal[0] == 500
        assert virtual_time.now() - before == gates.REVIEW_SECONDS

    virtual_time.run(main())


@pytest.mark.parametrize(
    "text", [f"invalid response: it starts with {TOKEN}", f"…spec: {TOKEN[:9]}… and more"]
)
def test_tokens_are_not_logged(text: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(it: Entrance) -> None:
        await it.try_("wrong-token")  # which the reviewer repeats in its answer
        it.reviewer.refusals["create", "tokenreviews"] = Unreachable("https://api", text)
        refusal = await it.try_(TOKEN)
        assert refusal is not None
        assert "token rejected: invalid bearer token" in caplog.text
        assert "tokenreviews.authentication.k8s.io failed" in caplog.text
        for secret in (TOKEN[:8], "wrong-to"):
            assert secret not in caplog.text + refusal[2]

    with caplog.at_level(1):
        at_the_gate(scenario)
    assert logging.getLogger("mooring.serving").name in {record.name for record in caplog.records}


# ---- paths that need no leave


@pytest.mark.parametrize(
    ("patterns", "open_", "closed"),
    [
        (("/healthz", "/readyz"), ["/healthz", "healthz"], ["/healthz/ping", "/healthzz", "/", "/livez"]),
        (("/healthz/*",), ["/healthz/", "/healthz/ping"], ["/healthz", "/metrics"]),
        (("/healthz*",), ["/healthz", "/healthzz", "/healthz/ping"], ["/health"]),
        (("metrics", "/"), ["/metrics", "/"], ["/metrics/resources"]),
        (("*",), ["/", "/metrics"], []),
        ((), [], ["/", "/healthz"]),
    ],
)
def test_open_paths(patterns: tuple[str, ...], open_: list[str], closed: list[str]) -> None:
    paths = OpenPaths(patterns)
    assert all(path in paths for path in open_)
    assert not any(path in paths for path in closed)


def test_a_star_in_the_middle() -> None:
    with pytest.raises(EndpointError, match=r'always-allow-paths: "/a\*b": a star is allowed only'):
        OpenPaths(["/a*b"])


def test_health_is_open_to_all_but_what_is_below_is_not() -> None:
    async def scenario(it: Entrance) -> None:
        for path in ("/healthz", "/livez", "/readyz"):
            assert await it.try_("wrong", path) is None
            assert await it.try_("", f"{path}/ping") == UNAUTHORIZED

    at_the_gate(scenario)
