"""Credentials as a client uses them: headers and a TLS context, kept up to date."""

from __future__ import annotations

import asyncio
import ssl
import time
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import msgspec

from mooring.cluster.credentials.errors import CredentialsError
from mooring.cluster.credentials.identity import FILES_HOLD_FOR, Identity, PlainIdentity
from mooring.cluster.credentials.trust import Trust, tls_context
from mooring.cluster.http.route import Route


class Impersonation(msgspec.Struct, frozen=True):
    """As whom to act: the `as` fields of a kubeconfig."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}

    def headers(self) -> list[tuple[str, str]]:
        if not self.user:
            return []
        extra = [
            (f"Impersonate-Extra-{key}", value) for key, values in self.extra.items() for value in values
        ]
        uid = [("Impersonate-Uid", self.uid)] if self.uid else []
        groups = [("Impersonate-Group", group) for group in self.groups]
        return [("Impersonate-User", self.user), *uid, *groups, *extra]


class Credentials:
    """Where an API server is, and how to be let in. Several clients may share one.

    `headers` and `tls` hold until `fresh_until` (of time.monotonic()); then `renew` has to be awaited.
    """

    def __init__(
        self,
        server: str,
        identity: Identity | None = None,
        *,
        trust: Trust | None = None,
        server_name: str = "",
        impersonation: Impersonation | None = None,
        namespace: str = "",
    ) -> None:
        url = _parse(server)
        secure = url.scheme == "https"
        self.server = url.geturl()
        self.namespace = namespace or "default"  # where names without a namespace are looked up
        self.path = url.path.rstrip("/")  # what precedes every path: empty, or "/k8s/clusters/c-1"
        self.route = Route(url.hostname or "", url.port or (443 if secure else 80), server_name)
        self.headers = b""  # lines of HTTP: Authorization, Impersonate-User, …
        self.tls: ssl.SSLContext | None = None
        self.fresh_until = 0.0
        self._secure = secure
        self._identity = identity or PlainIdentity()
        self._trust = trust or Trust()
        self._impersonation = impersonation or Impersonation()
        self._tls_made_of: tuple[bytes, ...] = ()
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"Credentials({self.server!r})"

    async def renew(self, *, refused: bool = False) -> None:
        """Bring headers and context up to date; `refused`: the server did not accept them (401).

        Raises CredentialsError.
        """
        before = self.headers, self.tls
        async with self._lock:
            if before != (self.headers, self.tls) or (not refused and time.monotonic() < self.fresh_until):
                return  # somebody else just did
            proof = await self._identity.prove(refused=refused)
            authorities = self._trust.read() if self._secure else b""
            made_of = (authorities, proof.certificate, proof.key)
            if self._secure and (self.tls is None or made_of != self._tls_made_of):
                self.tls = tls_context(self._trust, authorities, proof)
                self._tls_made_of = made_of
            own = [("Authorization", proof.authorization)] if proof.authorization else []
            self.headers = _lines([*own, *self._impersonation.headers()])
            rotates = isinstance(self._trust.authorities, Path)
            holds_for = min(proof.holds_for, FILES_HOLD_FOR) if rotates else proof.holds_for
            self.fresh_until = time.monotonic() + holds_for


def _parse(server: str) -> SplitResult:
    """The parts of a server's URL; as with client-go, without a scheme it is http."""
    expected = "expected a URL such as https://10.0.0.1:6443"
    try:
        url = urlsplit(server if "://" in server else f"http://{server}")
        known = url.scheme in ("http", "https") and url.hostname and (url.port or True)
    except ValueError as error:
        raise CredentialsError(f"server: found {server!r} ({error}), {expected}") from None
    if not known:
        raise CredentialsError(f"server: found {server!r}, {expected}")
    return url._replace(query="", fragment="")


def _lines(headers: list[tuple[str, str]]) -> bytes:
    text = "".join(f"{name}: {value}\r\n" for name, value in headers)
    if len(text.splitlines()) != len(headers):
        raise CredentialsError("credentials: found a line break in a token or user name, expected none")
    return text.encode("utf-8")
