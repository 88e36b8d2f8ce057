"""A Kubernetes API server in one process: see docs/embedded.md."""

from __future__ import annotations

from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.apiserver.server import EmbeddedServer

__all__ = ["EmbeddedCluster", "EmbeddedServer"]
