"""Proxies of the environment, as Go programs read it."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from mooring.client.credentials import Credentials, CredentialsError
from mooring.client.credentials.proxies import parse_proxy, proxy_from_environment
from mooring.client.http.tunnel import Proxy

PROXY = "http://proxy.example:3128"


def chosen(server: str, **environ: str) -> str:
    return repr(proxy_from_environment(urlsplit(server), environ))


def test_the_scheme_of_the_server_decides_which_variable_is_read() -> None:
    both = {"HTTPS_PROXY": "http://a:1", "HTTP_PROXY": "http://b:2"}
    assert chosen("https://api.example", **both) == "http://a:1"
    assert chosen("http://api.example", **both) == "http://b:2"
    assert chosen("https://api.example", https_proxy="c:3") == "http://c:3"
    assert chosen("https://api.example") == "None"


@pytest.mark.parametrize(
    ("server", "exempt"),
    [
        ("https://localhost:6443", ""),
        ("https://127.0.0.1", ""),
        ("https://[::1]:6443", ""),
        ("https://api.example", "*"),
        ("https://api.example", "other, api.example"),
        ("https://API.example", "api.EXAMPLE"),
        ("https://api.example", "example"),
        ("https://api.example", ".example"),
        ("https://api.example", "*.example"),
        ("https://api.example", "api.example:443"),
        ("https://10.1.2.3:6443", "10.1.2.3"),
        ("https://10.1.2.3:6443", "10.1.2.3:6443"),
        ("https://10.1.2.3", "10.0.0.0/8"),
        ("https://[fd00::1]:6443", "fd00::/8"),
        ("https://[fd00::1]:6443", "[fd00::1]:6443"),
        ("https://[fd00::1]:6443", "fd00::1"),
    ],
)
def test_servers_that_are_exempt_are_reached_directly(server: str, exempt: str) -> None:
    assert chosen(server, HTTPS_PROXY=PROXY, NO_PROXY=exempt) == "None"
    assert chosen(server, HTTPS_PROXY=PROXY, no_proxy=exempt) == "None"


@pytest.mark.parametrize(
    ("server", "exempt"),
    [
        ("https://api.example", ""),
        ("https://api.example", " , ,"),
        ("https://myexample", "example"),
        ("https://example", ".example"),
        ("https://api.example", "api.example:6443"),
        ("https://10.1.2.3", "10.1.2.3:6443"),
        ("https://10.1.2.3", "11.0.0.0/8"),
        ("https://10.1.2.3", "10.0.0.0/nonsense"),
        ("https://10.1.2.3", "2.3"),
    ],
)
def test_others_are_not(server: str, exempt: str) -> None:
    assert chosen(server, HTTPS_PROXY=PROXY, NO_PROXY=exempt) == PROXY


def test_schemes_and_ports() -> None:
    assert parse_proxy("http://p", "x") == Proxy("http", "p", 80)
    assert parse_proxy("https://p", "x") == Proxy("https", "p", 443)
    assert parse_proxy("socks5://me:a%2Fb@p", "x") == Proxy("socks5", "p", 1080, "me", "a/b")
    with pytest.raises(CredentialsError, match='HTTPS_PROXY: found scheme "gopher", expected a URL'):
        chosen("https://api.example", HTTPS_PROXY="gopher://p")


def test_credentials_take_the_proxy_given_or_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", "direct.example")
    given = Proxy("socks5", "given.example", 1080)
    assert repr(Credentials("https://api.example").route.proxy) == PROXY
    assert Credentials("https://direct.example").route.proxy is None
    assert Credentials("https://direct.example", proxy=given).route.proxy == given
