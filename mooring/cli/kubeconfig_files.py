"""The kubeconfig files that `mooring up` writes for other programs, and takes away at the end."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from mooring.sandbox.apiserver.http.kubeconfig import is_ours, write_private

_SECTIONS = ("clusters", "users", "contexts")


class Copy:
    """A copy of the cluster's kubeconfig at a path that the user chose."""

    def __init__(self, own: Path, target: Path) -> None:
        """Raises FileExistsError if the file is of other clusters, or of one that is running."""
        if target.exists():
            if not is_ours(target):
                reason = "not overwritten, because it contains other clusters\nhint: choose another file"
                raise FileExistsError(errno.EEXIST, reason, str(target))
            if _answers(target):
                reason = "not overwritten, because its cluster is running\nhint: choose another file"
                raise FileExistsError(errno.EEXIST, reason, str(target))
        target.parent.mkdir(parents=True, exist_ok=True)
        self._data = own.read_bytes()
        self._target = target
        write_private(target, self._data)

    def remove(self) -> None:
        """Delete the file, unless it was changed."""
        try:
            if self._target.read_bytes() == self._data:
                self._target.unlink()
        except OSError:
            pass  # already gone


class Merged:
    """The cluster's entries in the user's default kubeconfig, with the current context."""

    def __init__(self, own: Path) -> None:
        first = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
        self.path = Path(first) if first else Path.home() / ".kube" / "config"
        tree = _read(self.path)
        added = _read(own)
        self._names = {section: added[section][0]["name"] for section in _SECTIONS}
        self._previous = tree.get("current-context")
        for section in _SECTIONS:
            kept = [each for each in tree.get(section) or [] if each.get("name") != self._names[section]]
            tree[section] = [*kept, *added[section]]
        tree["current-context"] = added["current-context"]
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(self.path, tree)

    def remove(self) -> None:
        """Take the entries out again and restore the current context."""
        tree = _read(self.path)
        for section in _SECTIONS:
            entries = tree.get(section) or []
            tree[section] = [each for each in entries if each.get("name") != self._names[section]]
        if tree.get("current-context") == self._names["contexts"]:
            tree["current-context"] = self._previous or ""
        _write(self.path, tree)


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {"apiVersion": "v1", "kind": "Config"}
    tree = yaml.safe_load(path.read_text())
    if not isinstance(tree, dict):
        raise OSError(errno.EINVAL, "not a kubeconfig", str(path))
    return tree


def _write(path: Path, tree: dict[str, Any]) -> None:
    write_private(path, yaml.safe_dump(tree, sort_keys=False).encode())


def _answers(path: Path) -> bool:
    """Whether the server of a kubeconfig accepts connections."""
    url = urlsplit(yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"])
    try:
        with socket.create_connection((url.hostname or "", url.port or 443), timeout=2):
            return True
    except OSError:
        return False
