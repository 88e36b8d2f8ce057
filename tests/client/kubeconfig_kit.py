"""kubeconfig files for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from mooring.client.credentials import Credentials, load_credentials


def write(path: Path, tree: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tree if isinstance(tree, str) else yaml.safe_dump(tree))
    return path


def config(
    user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None, name: str = "it", **others: Any
) -> dict[str, Any]:
    """A kubeconfig with one context, one cluster and one user."""
    server = {"server": "https://10.0.0.1:6443"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": server | (cluster or {})}],
        "users": [{"name": name, "user": user or {}}],
        **others,
    }


def loaded(
    folder: Path, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None
) -> Credentials:
    """The credentials of a kubeconfig with this user and cluster."""
    return load_credentials(str(write(folder / "config", config(user, cluster))))


async def headers_of(credentials: Credentials) -> dict[str, list[str]]:
    """What requests say, once the credentials are fresh."""
    await credentials.renew()
    found: dict[str, list[str]] = {}
    for line in credentials.headers.decode().splitlines():
        name, _, value = line.partition(": ")
        found.setdefault(name, []).append(value)
    return found
