"""The certificate of the scheduler's endpoints and the clients it trusts, kept up to date while it serves."""

from __future__ import annotations

import asyncio
import logging
import ssl

from mooring.client.api_errors import ApiError, ClusterError
from mooring.client.port import Cluster
from mooring.serving.certificates import KeyPair
from mooring.serving.reviews import AUTHENTICATION_CONFIG_MAP, AUTHENTICATION_NAMESPACE, CONFIG_MAPS
from mooring.serving.settings import EndpointError, EndpointSettings
from mooring.serving.tls import TlsFiles, make_context

log = logging.getLogger("mooring.serving")

LOOKUP_SECONDS = 10.0  # for the API server to return its authorities of clients
WHERE = f"configmap {AUTHENTICATION_NAMESPACE}/{AUTHENTICATION_CONFIG_MAP}"


class ServingIdentity:
    """`context` is for the next connection. Raises EndpointError.

    Files are read again at each `refresh`, since certificate managers replace them in place. If the new ones
    do not load, the previous ones stay in use. The authorities of client certificates are read from `lookup`
    if the settings name no file.
    """

    def __init__(self, settings: EndpointSettings, lookup: Cluster | None = None) -> None:
        self._settings = settings
        self._files = TlsFiles(settings)
        needed = not settings.client_ca_file and not settings.authentication_skip_lookup
        self._lookup = lookup if needed else None
        self._looked_up = b""
        self._warnings: dict[str, str] = {}
        if settings.tls_min_version in ("VersionTLS10", "VersionTLS11"):
            log.warning("--tls-min-version=%s: nothing below TLS 1.2 is served", settings.tls_min_version)
        self._parts = (self._files.pair(), self._files.client_authorities())
        self.context = self._make_context(*self._parts)

    def _make_context(self, pair: KeyPair, client_authorities: bytes) -> ssl.SSLContext:
        return make_context(
            pair,
            self._files.describe(),
            minimum=self._settings.tls_min_version,
            suites=self._settings.tls_cipher_suites,
            client_authorities=client_authorities,
            client_ca_file=self._settings.client_ca_file,
        )

    async def prepare(self) -> None:
        """Look up authorities now if the settings do not tolerate a failure. Raises EndpointError."""
        if not self._settings.authentication_tolerate_lookup_failure:
            await self.look_up()

    async def look_up(self) -> None:
        """Read the API server's authorities of client certificates. Raises EndpointError."""
        if self._lookup is None:
            return
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                config_map = await self._lookup.get(
                    CONFIG_MAPS, AUTHENTICATION_CONFIG_MAP, AUTHENTICATION_NAMESPACE
                )
        except TimeoutError:
            raise EndpointError(f"{WHERE}: no answer within {LOOKUP_SECONDS:g} s") from None
        except ApiError as refusal:
            hint = ""
            if refusal.code == 403:
                hint = f"\nhint: bind the Role {AUTHENTICATION_CONFIG_MAP}-reader, or set --client-ca-file"
            raise EndpointError(f"{WHERE}: {refusal.message}{hint}") from None
        except ClusterError as failed:
            raise EndpointError(f"{WHERE}: {failed}") from None
        self._looked_up = config_map.data.get("client-ca-file", "").encode()

    async def refresh(self) -> bool:
        """Read everything again, and return whether there is a new context."""
        try:
            await self.look_up()
            self._warnings.pop("lookup", None)
        except EndpointError as problem:
            self._warn("lookup", f"{problem}; keeping the previous authorities of client certificates")
        try:
            parts = (self._files.pair(), self._files.client_authorities() or self._looked_up)
            if parts == self._parts:
                return False
            self.context = self._make_context(*parts)
        except EndpointError as problem:
            self._warn("files", f"{problem}; keeping the previous one")
            return False
        self._parts = parts
        self._warnings.pop("files", None)
        return True

    def _warn(self, what: str, warning: str) -> None:
        """Log a warning, once for each cause in a row."""
        if self._warnings.get(what) != warning:
            self._warnings[what] = warning
            log.warning("%s", " ".join(warning.splitlines()))
