"""The kubeconfig for kubectl and other clients."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import yaml

from mooring.client.credentials.kubeconfig import SCHEDULER


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read. An existing file is replaced atomically."""
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    temporary.replace(path)


def write_kubeconfig(path: Path, server: str, token: str, authority: bytes) -> None:
    """Write a kubeconfig with one cluster, one user and one context, mode 600. Its extension says that the
    scheduler's decisions are served at the same address."""
    cluster: dict[str, Any] = {"server": server, "extensions": [{"name": SCHEDULER, "extension": server}]}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "mooring", "cluster": cluster}],
        "users": [{"name": "mooring-admin", "user": {"token": token}}],
        "contexts": [{"name": "mooring", "context": {"cluster": "mooring", "user": "mooring-admin"}}],
        "current-context": "mooring",
    }
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())


def is_ours(path: Path) -> bool:
    """Return whether a file is a kubeconfig of `write_kubeconfig`, which may be replaced."""
    try:
        config = yaml.safe_load(path.read_text())
        return [cluster["name"] for cluster in config["clusters"]] == ["mooring"]
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError):
        return False
