"""ApiServer: a Kubernetes API server on a thread, for tests of operators and other clients.

def test_namespaces(mooring_api):
    kubernetes.config.load_kube_config(mooring_api.kubeconfig)
    kubernetes.client.CoreV1Api().create_namespace({"metadata": {"name": "shop"}})
"""

from __future__ import annotations

from typing import Self

from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.testing.loop_thread import LoopThread


class ApiServer:
    """An API server on a free loopback port, in memory: no nodes, no controllers, no scheduler."""

    def __init__(self) -> None:
        self._loop = LoopThread()
        self._server = EmbeddedServer()
        try:
            self._loop.run_until_complete(self._server.start())
        except BaseException:
            self._loop.close()
            raise

    @property
    def kubeconfig(self) -> str:
        """The path of a kubeconfig with an administrator's token; removed by `close`."""
        return str(self._server.kubeconfig)

    @property
    def url(self) -> str:
        return self._server.url

    def close(self) -> None:
        """Stop the server; done by `with` and by the fixture."""
        self._loop.run_until_complete(self._server.stop())
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
