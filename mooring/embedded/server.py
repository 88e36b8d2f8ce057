"""EmbeddedServer: a Kubernetes API in this process."""

from __future__ import annotations

import asyncio
import platform
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mooring.embedded.admission.plugins import default_admission
from mooring.embedded.bootstrap import bootstrap
from mooring.embedded.builtin import builtin_registry
from mooring.embedded.custom.serving import serve_definitions
from mooring.embedded.http.app import App
from mooring.embedded.http.certificates import make_certificates
from mooring.embedded.http.kubeconfig import write_kubeconfig, write_private
from mooring.embedded.http.serving import Listener
from mooring.embedded.port import EmbeddedCluster
from mooring.embedded.store.sqlite import SqliteJournal
from mooring.embedded.store.store import WINDOW, Store
from mooring.embedded.verbs.api import Api

VERSION = "1.36"


class EmbeddedServer:
    """A Kubernetes API server. Nothing happens before `start`; `stop` ends what it began.

    It listens on this machine only unless `host` says otherwise, and lets in whoever has the token that
    stands in the kubeconfig. Without a data directory everything is in memory and gone afterwards.
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
    ) -> None:
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._host = host
        self._port = port
        self._clock = clock
        self._seed = seed
        self._window = window
        self._directory: Path | None = None
        self._listener: Listener | None = None
        self.token = secrets.token_urlsafe(32)
        self.api: Api

    async def start(self) -> None:
        """Open the store and listen."""
        self._directory = Path(tempfile.mkdtemp(prefix="mooring-"))
        try:
            self.open()
            await self._listen(self._directory)
        except BaseException:
            self._forget()
            raise

    def open(self) -> None:
        """Open the store without listening: `cluster` is then the only way in. `stop` closes it again."""
        journal = None if self._data_dir is None else SqliteJournal(self._data_dir)
        store = Store(window=self._window, journal=journal)
        loop = asyncio.get_running_loop()
        store.soon = loop.call_soon
        self.api = Api(store, builtin_registry(), default_admission(), clock=self._clock, seed=self._seed)
        serve_definitions(self.api)
        bootstrap(self.api)

    async def _listen(self, directory: Path) -> None:
        certificates = make_certificates(self._host)
        certificate, key = directory / "server.crt", directory / "server.key"
        write_private(certificate, certificates.certificate)
        write_private(key, certificates.key)
        app = App(self.api, self.token, version_info())
        self._listener = Listener(app, self._host, self._port, certificate, key)
        await self._listener.start()
        write_kubeconfig(directory / "kubeconfig", self.url, self.token, certificates.authority)

    @property
    def cluster(self) -> EmbeddedCluster:
        """The same API without HTTP, for whoever is in this process."""
        return EmbeddedCluster(self.api)

    @property
    def url(self) -> str:
        if self._listener is None:
            raise RuntimeError("the server has no address before it is started")
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)
        return f"https://{f'[{host}]' if ':' in host else host}:{self._listener.port}"

    @property
    def kubeconfig(self) -> Path:
        """A file that lets its owner in; it goes when the server stops."""
        if self._directory is None:
            raise RuntimeError("there is no kubeconfig before the server is started")
        return self._directory / "kubeconfig"

    async def stop(self) -> None:
        """End all requests, close the store, and remove the files that let clients in."""
        self.api.store.close()
        if self._listener is not None:
            await self._listener.stop()
        self._forget()

    def _forget(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = self._listener = None

    async def __aenter__(self) -> EmbeddedServer:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()


def version_info() -> dict[str, str]:
    """What /version says. The build is ours; the API is that of this release of Kubernetes."""
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
