"""EmbeddedServer: a Kubernetes API in this process."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path

from mooring.sandbox.apiserver.accounts import issue_for_pod
from mooring.sandbox.apiserver.admission.plugins import default_admission
from mooring.sandbox.apiserver.admission.policy_types import type_warnings
from mooring.sandbox.apiserver.aggregation.availability import Availability
from mooring.sandbox.apiserver.aggregation.remotes import Remotes
from mooring.sandbox.apiserver.bootstrap import (
    bootstrap,
    bootstrap_roles,
    publish_address,
    publish_authority,
)
from mooring.sandbox.apiserver.builtin import builtin_registry
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.custom.serving import serve_definitions
from mooring.sandbox.apiserver.http.identity import (
    front_proxy_identity,
    kept_certificates,
    kept_token,
    kubeconfig_path,
    last_port,
    new_token,
)
from mooring.sandbox.apiserver.http.in_cluster import ControlPlane
from mooring.sandbox.apiserver.http.kubeconfig import write_kubeconfig
from mooring.sandbox.apiserver.http.limits import api_limits
from mooring.sandbox.apiserver.http.service import ApiService
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.apiserver.store.sqlite import SqliteJournal
from mooring.sandbox.apiserver.store.store import WINDOW, Journal, Store
from mooring.serving.certificates import KeyPair
from mooring.serving.listening import listen
from mooring.serving.messages import Handler
from mooring.serving.server import FixedIdentity, HttpServer
from mooring.serving.tls import make_context

VERSION = "1.36"
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # by the address to connect to


class EmbeddedServer:
    """A Kubernetes API server. Nothing happens before `start`; `stop` ends what it began.

    It listens on the loopback interface unless `host` is set, and accepts the token in the kubeconfig.
    Without a data directory everything is in memory and lost at the end; with one, the kubeconfig is in it
    and stays valid, also across restarts as long as the port is free. `features` are the alpha features
    that are enabled, by the names of their gates.

    No controller creates the accounts that the ServiceAccount plugin requires, so that plugin is disabled by
    default, as in envtest.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        clock: Callable[[], float] = time.time,
        seed: int | None = None,
        window: int = WINDOW,
        disable_admission_plugins: Collection[str] = ("ServiceAccount",),
        features: Collection[str] = (),
    ) -> None:
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._host = host
        self._port = port
        self._clock = clock
        self._seed = seed
        self._window = window
        self._disabled = disable_admission_plugins
        self._features = frozenset(features)
        self._directory: Path | None = None
        self._server: HttpServer | None = None
        self._serving: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        """Finds out which other API servers are available."""
        self.token = new_token()
        self.authority = b""
        """The CA certificate of the server in PEM, once it listens."""
        self.signer: KeyPair | None = None
        """The CA certificate with its private key, once it listens: it signs client certificates."""
        self.pages: dict[str, Handler] = {}
        """Pages of others in this process, next to the API: see `ApiService`."""
        self.api: Api
        self.in_cluster: ControlPlane
        """How containers reach the API, once it is served."""

    async def start(self) -> None:
        """Open the store and listen."""
        self._directory = self._data_dir or Path(tempfile.mkdtemp(prefix="mooring-"))
        try:
            self.open()
            bootstrap_roles(self.api)
            self._listen(self._directory)
        except BaseException:
            if self._server is not None:
                self._server.close()
            self._forget()
            raise

    def open(self, journal: Journal | None = None) -> None:
        """Open the store without listening: `cluster` is then the only access. `stop` closes it again. Writes
        go to the `journal`, by default to one in the data directory."""
        if journal is None and self._data_dir is not None:
            journal = SqliteJournal(self._data_dir)
        if self._data_dir is not None:
            self.token = kept_token(self._data_dir)
        store = Store(window=self._window, journal=journal)
        loop = asyncio.get_running_loop()
        store.soon = loop.call_soon
        self.api = Api(
            store,
            builtin_registry(self._features),
            default_admission(self._disabled),
            clock=self._clock,
            seed=self._seed,
            token=self.token,
            features=self._features,
        )
        serve_definitions(self.api)
        bootstrap(self.api)

    def _listen(self, directory: Path) -> None:
        certificates = kept_certificates(directory, self._host)
        self.authority, self.signer = certificates.authority, certificates.signer
        identity = FixedIdentity(make_context(certificates.pair, client_authorities=self.authority))
        version = version_info()
        remotes, proxy = Remotes(self.api), front_proxy_identity(directory, self.signer)
        service = ApiService(self.api, version, self.pages, remotes, proxy)
        listener = self._open_listener(directory)
        self._server = HttpServer(service, listener, identity, api_limits())
        host, port = listener.getsockname()[:2]
        host = _WILDCARDS.get(host, host)
        publish_address(self.api, host, port)
        self.in_cluster = ControlPlane(self.api, version, host, port)
        publish_authority(self.api, self.authority)
        write_kubeconfig(kubeconfig_path(directory), self.url, self.token, self.authority)
        self._serving = asyncio.create_task(self._server.run())
        self._checking = asyncio.create_task(Availability(self.api, remotes, proxy).run())

    def _open_listener(self, directory: Path) -> socket.socket:
        """Listen on the given port, else on the one used last, else on a free one."""
        if not self._port:
            with contextlib.suppress(OSError):
                return listen(self._host, last_port(directory))
        return listen(self._host, self._port)

    def check_policy_types(self, policy: Tree) -> list[Tree]:
        """Return what the types of a ValidatingAdmissionPolicy's expressions are wrong about."""
        return type_warnings(self.api.registry, policy)

    def issue_token(self, namespace: str, pod: str, audience: str, seconds: int) -> str | None:
        """Return a token of a pod's service account that is bound to the pod; None if one is missing."""
        return issue_for_pod(self.api, namespace, pod, audience, seconds)

    @property
    def cluster(self) -> EmbeddedCluster:
        """The API without HTTP, for callers in this process."""
        return EmbeddedCluster(self.api)

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("the server has no address before it is started")
        host = _WILDCARDS.get(self._host, self._host)
        return f"https://{f'[{host}]' if ':' in host else host}:{self._server.port}"

    @property
    def kubeconfig(self) -> Path:
        """A file with credentials; it is removed when the server stops, unless it is in a data directory."""
        if self._directory is None:
            raise RuntimeError("there is no kubeconfig before the server is started")
        return kubeconfig_path(self._directory)

    async def stop(self) -> None:
        """End all requests, close the store, and remove temporary files."""
        self.api.store.close()
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait({self._checking})
        if self._server is not None and self._serving is not None:
            self._serving.cancel()
            await asyncio.wait({self._serving})
            self._server.close()  # it may have been cancelled before it ran
        self._forget()

    def _forget(self) -> None:
        if self._directory is not None and self._data_dir is None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = self._server = self._serving = self._checking = None

    async def __aenter__(self) -> EmbeddedServer:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()


def version_info() -> dict[str, str]:
    """Return the answer to /version: our build, with the API of this release of Kubernetes."""
    major, minor = VERSION.split(".")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{VERSION}.0+mooring",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": f"{sys.platform}/{machine}",
    }
