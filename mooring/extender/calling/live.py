"""The extenders of a live scheduler, and what its informers do for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject
from mooring.client.informers import Informer, Informers, Sink
from mooring.client.port import Cluster
from mooring.config import LoadedConfig
from mooring.extender.calling.make import make_extenders
from mooring.extender.calling.originals import ForgettingSink, Originals


class LiveExtenders:
    """Raises ConfigError where the configuration of one is wrong."""

    def __init__(self, loaded: LoadedConfig) -> None:
        self._originals = Originals(loaded.config.extenders)
        self.extenders = make_extenders(loaded, self._originals, in_threads=True)

    def informers(
        self,
        cluster: Cluster,
        sink: Sink,
        custom: Iterable[ApiResource[KubeObject]] = (),
        pods: Informer[Any] | None = None,
    ) -> Informers:
        """Informers that also keep what the extenders are shown; plain ones where there are no extenders,
        which may share an informer of pods."""
        if not self.extenders:
            return Informers(cluster, sink, custom=custom, pods=pods)
        sink = ForgettingSink(sink, self._originals)
        return Informers(cluster, sink, self._originals.watched(), custom=custom)

    def close(self) -> None:
        for extender in self.extenders:
            extender.close()
