"""`mooring extender` as a process: started, kept in step with the cluster, and ended in order."""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
from collections.abc import Callable

import msgspec

from mooring import __version__
from mooring.client.api_server import ApiServer
from mooring.client.credentials import Credentials
from mooring.client.informers import Informers
from mooring.client.port import Cluster
from mooring.extender.serving.app import App
from mooring.extender.serving.metrics import ExtenderMetrics
from mooring.extender.serving.offer import Offer, Reach, Served
from mooring.framework.handle import Client
from mooring.serving.identity import ServingIdentity
from mooring.serving.server import EndpointServer, Identity
from mooring.serving.settings import EndpointError, EndpointSettings, parse_address

log = logging.getLogger("mooring.extender")

GRACE = 5.0  # seconds for answers under way; a scheduler waits no longer for them unless told otherwise
USER_AGENT = f"mooring-extender/{__version__}"


class Settings(msgspec.Struct, kw_only=True):
    """What the command line says. `make_client` is how a cluster is written to."""

    served: Served
    endpoint: EndpointSettings
    credentials: Credentials | None = None
    make_client: Callable[[Cluster], Client]


class PlainHttp:
    """The identity of a server without one."""

    context: ssl.SSLContext | None = None

    async def refresh(self) -> bool:
        return False


async def run(settings: Settings) -> None:
    """Serve until told to end. Raises what ExtenderProcess raises."""
    process = ExtenderProcess(settings)
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, process.end, sign.name)
    try:
        await process.run()
    finally:
        for sign in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(sign)


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
        app = App(
            offer.verbs,
            ExtenderMetrics(),
            not_ready=self._not_ready,
            needs_certificate=bool(endpoint.client_ca_file),
        )
        identity = _identity(endpoint)
        self._server = EndpointServer(endpoint, app, identity, GRACE)
        self._ended = asyncio.Event()
        scheme = "http" if identity.context is None else "https"
        host = f"[{endpoint.bind_address}]" if ":" in endpoint.bind_address else endpoint.bind_address
        self.url = f"{scheme}://{host}:{self._server.port}"
        if open_to_others(endpoint):
            log.warning(
                "whoever reaches %s is answered, and may bind pods where there is a /bind; "
                "--client-ca-file says who may",
                self.url,
            )
        for verb in offer.verbs:
            log.info("%s on %s%s: %s", verb.verb, self.url, verb.path, verb.who)

    def _not_ready(self) -> str:
        missing = [] if self._informers is None else self._informers.not_synced()
        return f"still listing {', '.join(missing)}" if missing else ""

    def end(self, why: str) -> None:
        log.info("ending: %s", why)
        self._ended.set()

    async def run(self) -> None:
        """Until `end` is called; what is being answered then is answered."""
        works = [self._server.run()] + ([] if self._informers is None else [self._informers.run()])
        parts = {asyncio.create_task(work) for work in works}
        asked = asyncio.create_task(self._ended.wait())
        try:
            done, _ = await asyncio.wait({asked, *parts}, return_when=asyncio.FIRST_COMPLETED)
            for part in done & parts:  # none of them ends by itself
                part.result()
        finally:
            for task in (asked, *parts):
                task.cancel()
            await asyncio.gather(asked, *parts, return_exceptions=True)
            self._server.close()
            if self._cluster is not None:
                await self._cluster.close()


def open_to_others(settings: EndpointSettings) -> bool:
    """Whether other machines are answered without being asked who they are."""
    return not settings.client_ca_file and not parse_address(settings.bind_address).is_loopback


def _identity(settings: EndpointSettings) -> Identity:
    """Raises EndpointError."""
    if settings.tls_cert_file or settings.tls_private_key_file:
        return ServingIdentity(settings)
    if settings.client_ca_file:
        raise EndpointError("found --client-ca-file without TLS; expected --tls-cert-file, too")
    return PlainHttp()
