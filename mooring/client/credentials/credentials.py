"""Credentials as a client uses them: headers and a TLS context, kept up to date."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time
from pathlib import Path
from urllib.parse import SplitResult, quote, urlsplit

import msgspec

from mooring.api.errors import show
from mooring.client.api_errors import CredentialsError
from mooring.client.credentials.identity import FILES_HOLD_FOR, Identity, PlainIdentity, Proof
from mooring.client.credentials.proxies import proxy_from_environment
from mooring.client.credentials.trust import Trust, tls_context
from mooring.client.http.route import Route
from mooring.client.http.tunnel import Proxy

log = logging.getLogger(__name__)

_TRY_AGAIN_IN = 10.0  # seconds until files that could not be used are read again
_IN_HEADER_NAMES = "!#$&'*+^`|"  # besides letters, digits and -._~; others are percent-encoded


class Impersonation(msgspec.Struct, frozen=True):
    """Impersonation: the `as` fields of a kubeconfig."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}

    def headers(self) -> list[tuple[str, str]]:
        if not self.user:
            return []
        extra = [
            (f"Impersonate-Extra-{quote(key, safe=_IN_HEADER_NAMES)}", value)
            for key, values in self.extra.items()
            for value in values
        ]
        uid = [("Impersonate-Uid", self.uid)] if self.uid else []
        groups = [("Impersonate-Group", group) for group in self.groups]
        return [("Impersonate-User", self.user), *uid, *groups, *extra]


class Access(msgspec.Struct, frozen=True):
    """What a request needs: lines of HTTP (Authorization, Impersonate-User, …) and a TLS context."""

    headers: bytes = b""
    tls: ssl.SSLContext | None = None

    def __repr__(self) -> str:
        return "Access(…)"


class Credentials:
    """Where an API server is, and how to be let in. Several clients may share one.

    `access` holds until `fresh_until` (of time.monotonic()); then `renew` has to be awaited. As with
    client-go, nothing secret is said over plain HTTP.
    """

    def __init__(
        self,
        server: str,
        identity: Identity | None = None,
        *,
        trust: Trust | None = None,
        server_name: str = "",
        proxy: Proxy | None = None,
        impersonation: Impersonation | None = None,
        namespace: str = "",
        scheduler: str = "",
        server_field: str = "server",
    ) -> None:
        url = _parse(server, server_field)
        secure = url.scheme == "https"
        self.server = url.geturl()
        self.namespace = namespace or "default"  # where names without a namespace are looked up
        self.scheduler = scheduler  # where the cluster's scheduler can be asked about its decisions, if known
        self.path = url.path.rstrip("/")  # what precedes every path: empty, or "/k8s/clusters/c-1"
        self.route = Route(
            url.hostname or "",
            url.port or (443 if secure else 80),
            server_name,
            proxy or proxy_from_environment(url, os.environ),
        )
        self.access = Access()
        self.fresh_until = 0.0
        self._secure = secure
        self._identity = identity or PlainIdentity()
        self._trust = trust or Trust()
        self._impersonation = impersonation or Impersonation()
        self._made_of: tuple[bytes, ...] = ()
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"Credentials({self.server!r})"

    @property
    def headers(self) -> bytes:
        return self.access.headers

    @property
    def tls(self) -> ssl.SSLContext | None:
        return self.access.tls

    def check(self) -> None:
        """Read the files that they name, to complain early. Raises CredentialsError."""
        proof = self._identity.read() if isinstance(self._identity, PlainIdentity) else Proof()
        if self._secure:
            self._context(proof)

    async def renew(self, refused: Access | None = None) -> None:
        """Bring `access` up to date; `refused` is one that the server did not accept.

        Files that cannot be used at the moment, as they are being replaced, leave in place what was read
        before. Raises CredentialsError.
        """
        async with self._lock:
            if self.access is not refused if refused else time.monotonic() < self.fresh_until:
                return  # another task has just renewed it
            try:
                proof = await self._identity.prove() if self._secure else Proof()
                tls = self._context(proof) if self._secure else None
            except CredentialsError as error:
                if not self.fresh_until or not isinstance(self._identity, PlainIdentity):
                    raise
                log.warning("%s; keeping the previous credentials", error)
                self.fresh_until = time.monotonic() + _TRY_AGAIN_IN
                return
            own = [("Authorization", proof.authorization)] if proof.authorization else []
            self.access = Access(_lines([*own, *self._impersonation.headers()]), tls)
            rotates = isinstance(self._trust.authorities, Path)
            holds_for = min(proof.holds_for, FILES_HOLD_FOR) if rotates else proof.holds_for
            self.fresh_until = time.monotonic() + holds_for

    def _context(self, proof: Proof) -> ssl.SSLContext:
        """Return the TLS context, the previous one if its inputs are unchanged, so that connections are
        reused."""
        authorities = self._trust.read()
        made_of = (authorities, proof.certificate, proof.key)
        if self.access.tls is not None and made_of == self._made_of:
            return self.access.tls
        context = tls_context(self._trust, authorities, proof)
        self._made_of = made_of
        return context


def _parse(server: str, field: str) -> SplitResult:
    """The parts of a server's URL; as with client-go, without a scheme it is http."""
    expected = "expected a URL such as https://10.0.0.1:6443"
    try:
        url = urlsplit(server if "://" in server else f"http://{server}")
        is_valid = url.scheme in ("http", "https") and url.hostname and (url.port or True)
    except ValueError as error:
        raise CredentialsError(f"{field}: found {show(server)} ({error}), {expected}") from None
    if not is_valid:
        raise CredentialsError(f"{field}: found {show(server)}, {expected}")
    return url._replace(query="", fragment="")


def _lines(headers: list[tuple[str, str]]) -> bytes:
    text = "".join(f"{name}: {value}\r\n" for name, value in headers)
    if len(text.splitlines()) != len(headers):
        raise CredentialsError("credentials: found a line break in a token or user name, expected none")
    return text.encode("utf-8")
