"""Who may use the page, from where, and with what."""

from __future__ import annotations

import logging

import pytest

from mooring.testing import make_node
from mooring.web.assets import FOLDER, assets
from mooring.web.service import MOST_BYTES
from tests.web.kit import Page, serving

NODES = [make_node("n1")]


def test_the_api_needs_the_token_and_the_assets_do_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario(page: Page) -> None:
        assert (await page.get("/v1/meta")).json["mode"] == "file"
        for wrong in ("", "Bearer", "Bearer wrong", f"Basic {page.token}"):
            reply = await page.get("/v1/meta", authorization=wrong)
            assert (reply.status, reply.json["reason"]) == (401, "Unauthorized")
        opened = await page.get(f"/?token={page.token}", authorization="")
        assert opened.status == 200
        assert b"<!doctype html>" in opened.body
        assert page.token not in caplog.text

    serving(list(NODES), scenario)


def test_other_hosts_and_origins_are_rejected() -> None:
    async def scenario(page: Page) -> None:
        for host in ("evil.example", page.host.replace("127.0.0.1", "evil.example"), "127.0.0.1"):
            assert (await page.get("/v1/meta", host=host)).status == 421
            assert (await page.get("/", host=host)).status == 421
        assert (await page.get("/v1/meta", origin="http://evil.example")).status == 403
        assert (await page.get("/v1/meta", sec_fetch_site="cross-site")).status == 403
        for origin in ("http://evil.example", "null", ""):
            assert (await page.post("/v1/what-if", {}, origin=origin)).status == 403
        local = await page.get("/v1/meta", host=page.host.replace("127.0.0.1", "localhost"))
        assert local.status == 200

    serving(list(NODES), scenario)


def test_every_answer_of_the_api_needs_the_token_and_is_not_stored(caplog: pytest.LogCaptureFixture) -> None:
    """DNS rebinding and other local programs get nothing: neither data, nor streams, nor actions."""
    caplog.set_level(logging.DEBUG)

    async def scenario(page: Page) -> None:
        paths = ("meta", "cluster", "queue", "pods?q=a", "decisions", "config", "events", "nodes/n1", "none")
        for path in paths:
            reply = await page.get(f"/v1/{path}", authorization="Bearer expired")
            assert (reply.status, reply.headers["cache-control"]) == (401, "no-store")
            assert "the link that was printed" in reply.json["message"]
            in_address = await page.get(f"/v1/{path}", authorization="", cookie=f"token={page.token}")
            assert in_address.status == 401
        assert (await page.get(f"/v1/meta?token={page.token}", authorization="")).status == 401
        assert (await page.post("/v1/what-if", {}, authorization="Bearer expired")).status == 401
        for host in ("rebound.example:80", f"127.0.0.1.nip.example:{page.host.rpartition(':')[2]}", ""):
            assert (await page.get("/v1/meta", host=host)).status in (400, 421)
        assert (await page.get("/v1/meta", authorization=f"Bearer {page.token}x")).status == 401
        assert (await page.get("/v1/meta", authorization="Bearer \xff")).status == 401
        assert page.token not in caplog.text

    serving(list(NODES), scenario)


def test_odd_requests_get_a_message() -> None:
    async def scenario(page: Page) -> None:
        bodies = (
            b"",
            b"[" * 100_000,
            b"\xff\xfe",
            b"null",
            b"[]",
            b'{"manifest": 1}',
            b'{"addNodes": [{"like": "n1", "count": 1e99}]}',
        )
        for body in bodies:
            reply = await page.post("/v1/what-if", body)
            assert (reply.status, reply.json["kind"]) == (400, "Status"), body[:20]
        bombs = ("a: &a [x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n" * 3, "[" * 50_000, "\0", "kind: [")
        for manifest in bombs:
            reply = await page.post("/v1/what-if", {"manifest": manifest})
            assert reply.status in (400, 422), manifest[:20]
            assert "manifest" in reply.json["message"]
        for path in (
            "nodes/%00",
            "nodes/" + "x" * 5000,
            "pods/a/b/c/d",
            "decisions/-1",
            "decisions?before=-1",
        ):
            reply = await page.get(f"/v1/{path}")
            assert reply.status in (400, 404, 410), path
        assert (await page.get("/v1/meta")).status == 200

    serving(list(NODES), scenario)


def test_requests_are_bounded_and_checked() -> None:
    async def scenario(page: Page) -> None:
        huge = b'{"manifest": "' + b"x" * (MOST_BYTES + 1) + b'"}'
        assert (await page.post("/v1/what-if", huge)).status == 413
        malformed = await page.post("/v1/what-if", b"{")
        assert (malformed.status, malformed.json["reason"]) == (400, "BadRequest")
        assert (await page.post("/v1/what-if", {"nonsense": 1})).status == 400
        assert (await page.post("/v1/what-if", {}, content_type="text/plain")).status == 415
        assert (await page.post("/v1/sandbox/pause", {})).status == 404

    serving(list(NODES), scenario)


def test_assets_are_compressed_cached_and_cannot_run_foreign_code() -> None:
    async def scenario(page: Page) -> None:
        reply = await page.get("/", accept_encoding="gzip")
        assert reply.headers["content-encoding"] == "gzip"
        policy = reply.headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert reply.headers["referrer-policy"] == "no-referrer"
        again = await page.get("/", if_none_match=reply.headers["etag"])
        assert (again.status, again.body) == (304, b"")
        for path in ("/../service.py", "/%2e%2e/service.py", "/static/index.html"):
            assert (await page.get(path)).status == 404

    serving(list(NODES), scenario)


def test_assets_are_small_and_build_no_markup_from_text() -> None:
    assert sum(len(asset.compressed) for asset in assets().values()) < 100_000
    for path in FOLDER.rglob("*.js"):
        text = path.read_text()
        for forbidden in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "http://",
        ):
            assert forbidden not in text, f"{path.name}: {forbidden}"
    html = (FOLDER / "index.html").read_text()
    assert "style=" not in html
    assert "<script>" not in html
