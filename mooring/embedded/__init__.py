"""A Kubernetes API server in one process: see docs/embedded.md."""

from __future__ import annotations

from mooring.embedded.port import EmbeddedCluster
from mooring.embedded.server import EmbeddedServer

__all__ = ["EmbeddedCluster", "EmbeddedServer"]
