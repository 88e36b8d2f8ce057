"""The server's identity and the clients it believes, kept up to date while it serves."""

from __future__ import annotations

import asyncio
import logging

from mooring.client.errors import ApiError, ClusterError
from mooring.client.port import Cluster
from mooring.serving.reviews import AUTHENTICATION_CONFIG_MAP, AUTHENTICATION_NAMESPACE, CONFIG_MAPS
from mooring.serving.settings import EndpointError, EndpointSettings
from mooring.serving.tls import TlsFiles, make_context

log = logging.getLogger("mooring.serving")

PATIENCE = 10.0  # seconds for the API server to say whom it believes
WHERE = f"configmap {AUTHENTICATION_NAMESPACE}/{AUTHENTICATION_CONFIG_MAP}"


class ServingIdentity:
    """`context` is for the next connection. Raises EndpointError.

    Files are read again at each `refresh`, since certificate managers replace them in place; what does not
    load then leaves the last good state in force. `lookup` is asked for the authorities of client
    certificates where the settings name no file.
    """

    def __init__(self, settings: EndpointSettings, lookup: Cluster | None = None) -> None:
        self._settings = settings
        self._files = TlsFiles(settings)
        needed = not settings.client_ca_file and not settings.authentication_skip_lookup
        self._lookup = lookup if needed else None
        self._looked_up = b""
        self._complaints: dict[str, str] = {}
        if settings.tls_min_version in ("VersionTLS10", "VersionTLS11"):
            log.warning("--tls-min-version=%s: nothing below TLS 1.2 is served", settings.tls_min_version)
        self._made_of = (self._files.pair(), self._files.client_authorities())
        self.context = make_context(settings, *self._made_of, self._files.describe())

    async def prepare(self) -> None:
        """Where the settings insist on the lookup, nothing begins without it. Raises EndpointError."""
        if not self._settings.authentication_tolerate_lookup_failure:
            await self.look_up()

    async def look_up(self) -> None:
        """Ask the API server whom it believes. Raises EndpointError."""
        if self._lookup is None:
            return
        try:
            async with asyncio.timeout(PATIENCE):
                found = await self._lookup.get(
                    CONFIG_MAPS, AUTHENTICATION_CONFIG_MAP, AUTHENTICATION_NAMESPACE
                )
        except TimeoutError:
            raise EndpointError(f"{WHERE}: no answer within {PATIENCE:g} s") from None
        except ApiError as refusal:
            hint = ""
            if refusal.code == 403:
                hint = f"; bind the Role {AUTHENTICATION_CONFIG_MAP}-reader, or give --client-ca-file"
            raise EndpointError(f"{WHERE}: {refusal.message}{hint}") from None
        except ClusterError as failed:
            raise EndpointError(f"{WHERE}: {failed}") from None
        self._looked_up = found.data.get("client-ca-file", "").encode()

    async def refresh(self) -> bool:
        """Look at everything again; whether there is a new context."""
        try:
            await self.look_up()
            self._complaints.pop("lookup", None)
        except EndpointError as problem:
            self._complain("lookup", f"{problem}; client certificates are believed as before")
        try:
            made_of = (self._files.pair(), self._files.client_authorities() or self._looked_up)
            if made_of == self._made_of:
                return False
            self.context = make_context(self._settings, *made_of, self._files.describe())
        except EndpointError as problem:
            self._complain("files", f"{problem}; the last good one stays in force")
            return False
        self._made_of = made_of
        self._complaints.pop("files", None)
        return True

    def _complain(self, what: str, complaint: str) -> None:
        """Once for each cause in a row."""
        if self._complaints.get(what) != complaint:
            self._complaints[what] = complaint
            log.warning("%s", complaint)
