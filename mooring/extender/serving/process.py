"""`mooring extender` as a process: start, follow the cluster, stop in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from mooring import __version__
from mooring.client.api_server import ApiServer
from mooring.client.credentials import Credentials
from mooring.client.informers import Informers
from mooring.client.port import Cluster
from mooring.client.signals import end_by_signals
from mooring.extender.serving.metrics import ExtenderMetrics
from mooring.extender.serving.offer import Offer, Reach, Served
from mooring.extender.serving.service import ExtenderService
from mooring.framework.handle import Client
from mooring.serving.identity import ServingIdentity
from mooring.serving.limits import Limits
from mooring.serving.listening import open_listener
from mooring.serving.server import FixedIdentity, HttpServer, Identity
from mooring.serving.settings import EndpointError, EndpointSettings, parse_address

log = logging.getLogger("mooring.extender")

LIMITS = Limits(grace_seconds=5.0)  # a scheduler waits no longer for an answer by default
USER_AGENT = f"mooring-extender/{__version__}"


class Settings(msgspec.Struct, kw_only=True):
    """The command line. `make_client` makes what writes to a cluster."""

    served: Served
    endpoint: EndpointSettings
    credentials: Credentials | None = None
    make_client: Callable[[Cluster], Client]


async def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises what ExtenderProcess raises."""
    process = ExtenderProcess(settings)
    with end_by_signals(process.end):
        await process.run()


class ExtenderProcess:
    """One server. Raises LoadingError, ConfigError, PluginError, CredentialsError and EndpointError."""

    def __init__(self, settings: Settings) -> None:
        self._cluster: ApiServer | None = None
        reach: Reach | None = None
        if settings.credentials is not None:
            self._cluster = ApiServer(settings.credentials, qps=-1, user_agent=USER_AGENT)
            reach = Reach(self._cluster, settings.make_client(self._cluster))
        offer = Offer(settings.served, reach)
        self._informers: Informers | None = None
        if self._cluster is not None and offer.resources:
            self._informers = Informers(self._cluster, offer, offer.resources, custom=offer.custom)
        endpoint = settings.endpoint
        service = ExtenderService(
            offer.verbs,
            ExtenderMetrics(),
            not_ready=self._not_ready,
            needs_certificate=bool(endpoint.client_ca_file),
        )
        identity = _identity(endpoint)
        self._server = HttpServer(service, open_listener(endpoint), identity, LIMITS)
        self._ended = asyncio.Event()
        scheme = "http" if identity.context is None else "https"
        host = f"[{endpoint.bind_address}]" if ":" in endpoint.bind_address else endpoint.bind_address
        self.url = f"{scheme}://{host}:{self._server.port}"
        if open_to_others(endpoint):
            log.warning(
                "%s is served without authentication: any client can use it, also to bind pods if there is a "
                "/bind; restrict it with --client-ca-file",
                self.url,
            )
        for verb in offer.verbs:
            log.info("%s on %s%s: %s", verb.verb, self.url, verb.path, verb.who)

    def _not_ready(self) -> str:
        missing = [] if self._informers is None else self._informers.not_synced()
        return f"still listing {', '.join(missing)}" if missing else ""

    def end(self, why: str) -> None:
        log.info("shutting down: %s", why)
        self._ended.set()

    async def run(self) -> None:
        """Serve until `end` is called, and finish the answers in progress."""
        works = [self._server.run()] + ([] if self._informers is None else [self._informers.run()])
        parts = {asyncio.create_task(work) for work in works}
        end = asyncio.create_task(self._ended.wait())
        try:
            done, _ = await asyncio.wait({end, *parts}, return_when=asyncio.FIRST_COMPLETED)
            for part in done & parts:  # none of them ends by itself
                part.result()
        finally:
            for task in (end, *parts):
                task.cancel()
            await asyncio.gather(end, *parts, return_exceptions=True)
            self._server.close()
            if self._cluster is not None:
                await self._cluster.close()


def open_to_others(settings: EndpointSettings) -> bool:
    """Return whether other machines can connect without authentication."""
    return not settings.client_ca_file and not parse_address(settings.bind_address).is_loopback


def _identity(settings: EndpointSettings) -> Identity:
    """Return the certificate to serve with, or plain HTTP. Raises EndpointError."""
    if settings.tls_cert_file or settings.tls_private_key_file:
        return ServingIdentity(settings)
    if settings.client_ca_file:
        raise EndpointError("--client-ca-file requires --tls-cert-file")
    return FixedIdentity(None)
