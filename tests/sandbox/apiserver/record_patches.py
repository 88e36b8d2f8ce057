"""Make data/patches.json anew, with a real API server:

KUBEBUILDER_ASSETS=… python -m tests.sandbox.apiserver.record_patches
"""

from __future__ import annotations

import json
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from pathlib import Path
from typing import Any

from tests.live.control_plane import ControlPlane, assets
from tests.sandbox.apiserver.patch_replay import (
    PATCHES,
    RECORDED,
    Answer,
    Normal,
    Step,
    pack,
    resource_paths,
    scenes,
)

_KEPT = ("default", "kube-node-lease", "kube-public", "kube-system", "kubernetes")


class Real:
    """A real API server, asked step by step."""

    def __init__(self, server: str, token: str) -> None:
        self._server = server
        self._token = token
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    def ask(self, step: Step) -> Answer:
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": step.content_type,
            "User-Agent": step.agent,
            **({"Impersonate-User": step.user} if step.user else {}),
        }
        request = urllib.request.Request(self._server + step.path, step.body, headers, method=step.method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=20) as reply:
                return Answer(reply.status, json.loads(reply.read()), _warnings(reply.headers))
        except urllib.error.HTTPError as error:
            return Answer(error.code, json.loads(error.read()), _warnings(error.headers))

    def clean(self) -> None:
        """Delete what scenes made, whatever holds it."""
        for path in resource_paths():
            listed = self.ask(Step("GET", path, "application/json", None, ""))
            names = [item["metadata"]["name"] for item in listed.tree["items"]]
            for name in names:
                if name in _KEPT or name.startswith("system-"):
                    continue
                free = b'{"metadata":{"finalizers":null}}'
                self.ask(Step("PATCH", f"{path}/{name}", PATCHES["merge"], free, ""))
                self.ask(Step("DELETE", f"{path}/{name}", "application/json", None, ""))


def _warnings(headers: Message) -> list[str]:
    found: list[str] = headers.get_all("Warning") or []
    return [json.loads(text.partition(" - ")[2]) for text in found]


def record(real: Real) -> dict[str, list[Any]]:
    recorded = {}
    for name, steps in scenes().items():
        normal = Normal()
        recorded[name] = [normal(real.ask(step)) for step in steps]
        real.clean()
    return recorded


def write(recorded: Mapping[str, list[Any]], path: Path) -> None:
    """One line per answer, so that differences can be read."""
    told = []
    for name, answers in recorded.items():
        lines = ",\n".join(json.dumps(answer, sort_keys=True) for answer in pack(answers))
        told.append(f"{json.dumps(name)}: [\n{lines}\n]")
    path.write_text("{\n" + ",\n".join(told) + "\n}\n")


def main() -> None:
    binaries = assets()
    if binaries is None:
        raise SystemExit("set KUBEBUILDER_ASSETS to a directory with etcd and kube-apiserver")
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(binaries, Path(folder))
        plane.start()
        try:
            write(record(Real(plane.server, plane.token)), RECORDED)
        finally:
            plane.stop()


if __name__ == "__main__":
    main()
