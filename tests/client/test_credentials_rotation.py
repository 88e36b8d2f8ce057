"""Credentials in files that are replaced in place, as a pod's service account has them."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from mooring.api.kinds import NODES
from mooring.client.api_errors import ApiError
from mooring.client.api_server import ApiServer
from mooring.client.credentials import (
    Credentials,
    CredentialsError,
    load_credentials,
    load_user_credentials,
    loading,
)
from tests.client.api_kit import run, status
from tests.client.certificates import Authority, authority, loopback
from tests.client.kubeconfig_kit import headers_of
from tests.client.loopback import Reply, Request, serving


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a service account, in a pod of a cluster at 127.0.0.1."""
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_bytes(authority().certificate)
    (tmp_path / "namespace").write_text("kube-system")
    monkeypatch.setattr(loading, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return tmp_path


def pass_a_minute(credentials: Credentials) -> None:
    credentials.fresh_until -= 61


def test_a_pod_has_its_service_account(account: Path) -> None:
    for credentials in (load_credentials(None), load_user_credentials()):
        assert (credentials.server, credentials.namespace) == ("https://127.0.0.1:6443", "kube-system")
        assert asyncio.run(headers_of(credentials)) == {"Authorization": ["Bearer first"]}
        assert credentials.tls is not None
        assert len(credentials.tls.get_ca_certs()) == 1


def test_a_cluster_with_an_address_of_version_6(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    credentials = load_credentials(None)
    assert credentials.server == "https://[fd00::1]:6443"
    assert credentials.route.host == "fd00::1"


def test_a_service_account_without_a_token_is_told(account: Path) -> None:
    (account / "token").unlink()
    with pytest.raises(CredentialsError, match="token: tokenFile: cannot be read: No such file"):
        load_credentials(None)
    (account / "token").write_text(" \n")
    with pytest.raises(CredentialsError, match="token: tokenFile: found nothing, expected a token"):
        load_credentials(None)


def test_a_token_that_was_replaced_is_read_within_a_minute(account: Path) -> None:
    async def main() -> None:
        credentials = load_credentials(None)
        assert await headers_of(credentials) == {"Authorization": ["Bearer first"]}
        (account / "token").write_text("second")
        assert await headers_of(credentials) == {"Authorization": ["Bearer first"]}
        pass_a_minute(credentials)
        assert await headers_of(credentials) == {"Authorization": ["Bearer second"]}

    asyncio.run(main())


def test_a_token_that_cannot_be_read_at_the_moment_is_used_on(
    account: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        credentials = load_credentials(None)
        await credentials.renew()
        (account / "token").unlink()
        pass_a_minute(credentials)
        assert await headers_of(credentials) == {"Authorization": ["Bearer first"]}

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    (record,) = caplog.records
    assert (
        "tokenFile: cannot be read: No such file or directory; keeping the previous credentials"
        in record.getMessage()
    )
    assert "first" not in record.getMessage()


def test_authorities_that_are_half_written_do_not_cut_us_off(account: Path) -> None:
    async def main() -> None:
        credentials = load_credentials(None)
        await credentials.renew()
        before = credentials.tls
        (account / "ca.crt").write_bytes(authority().certificate[:100])
        pass_a_minute(credentials)
        await credentials.renew()
        assert credentials.tls is before
        (account / "ca.crt").write_bytes(Authority("next").certificate)
        pass_a_minute(credentials)
        await credentials.renew()
        assert credentials.tls is not before

    asyncio.run(main())


def test_a_refused_token_is_read_again_at_once(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: Request, reply: Reply) -> None:
        if request.headers["authorization"] == "Bearer second":
            await reply.json(404, status(404, "NotFound", "let in"))
        else:
            await reply.json(401, status(401, "Unauthorized", "Unauthorized"))

    async def main() -> None:
        async with serving(answer, loopback().context()) as server:
            monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
            api = ApiServer(load_credentials(None))
            with pytest.raises(ApiError, match="Unauthorized"):
                await api.get(NODES, "n1")
            (account / "token").write_text("second")
            with pytest.raises(ApiError, match="let in"):
                await api.get(NODES, "n1")
            await api.close()

    run(main())


def test_connections_are_kept_while_the_authorities_stay_and_made_anew_when_they_change(
    account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.json(200, {"metadata": {"name": "n1"}})

    async def main() -> None:
        async with serving(answer, loopback().context()) as server:
            monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
            credentials = load_credentials(None)
            api = ApiServer(credentials)
            for _ in range(2):
                await api.get(NODES, "n1")
                pass_a_minute(credentials)
            assert server.connections == 1
            (account / "ca.crt").write_bytes(Authority("next").certificate + authority().certificate)
            await api.get(NODES, "n1")
            assert server.connections == 2
            await api.close()

    run(main())
