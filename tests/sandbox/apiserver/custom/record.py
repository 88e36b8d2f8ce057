"""Record data/answers.json, rules.json and conversions.json, or one of them, from a real API server:

KUBEBUILDER_ASSETS=… python -m tests.sandbox.apiserver.custom.record [answers | rules | conversions]
"""

from __future__ import annotations

import json
import ssl
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.live.control_plane import ControlPlane, assets
from tests.sandbox.apiserver.custom.conversion_scenes import conversion_scenes
from tests.sandbox.apiserver.custom.replay import Answer, normal
from tests.sandbox.apiserver.custom.rule_scenes import RULE_SCENES
from tests.sandbox.apiserver.custom.scenes import DATA, SCENES, Scenes, Step
from tests.sandbox.apiserver.webhook_kit import webhook_server

FILES = ("answers", "rules", "conversions")


class Real:
    """A real API server, asked step by step."""

    def __init__(self, server: str, token: str) -> None:
        self._server = server
        self._token = token
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    def ask(self, step: Step) -> Answer:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": step.content_type}
        request = urllib.request.Request(self._server + step.path, step.data, headers, method=step.method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=20) as reply:
                return Answer(reply.status, reply.read().decode(), _warnings(reply.headers))
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read().decode(), _warnings(error.headers))

    def wait(self, step: Step) -> None:
        for _ in range(300):
            answer = self.ask(Step("GET", step.path))
            conditions = [] if answer.code == 404 else json.loads(answer.text)["status"]["conditions"] or []
            found = {
                one["type"]: one["reason"] for one in conditions if one["reason"] != "InstanceDeletionPending"
            }
            if answer.code == 404 if step.body == "gone" else step.body in found:
                time.sleep(2)  # handlers follow a little later
                return
            time.sleep(0.1)
        raise RuntimeError(f"{step.path} never became {step.body}")


def _warnings(headers: Any) -> list[str]:
    return [json.loads(text.partition(" - ")[2]) for text in headers.get_all("Warning") or ()]


def record(real: Real, scenes: Scenes) -> dict[str, list[Any]]:
    recorded: dict[str, list[Any]] = {}
    for name, scene in scenes.items():
        answers = recorded[name] = []
        for step in scene():
            if step.method == "WAIT":
                real.wait(step)
            else:
                answers.append(normal(real.ask(step)))
    return recorded


def main() -> None:
    binaries = assets()
    if binaries is None:
        raise SystemExit("set KUBEBUILDER_ASSETS to a directory with etcd and kube-apiserver")
    with tempfile.TemporaryDirectory() as folder, webhook_server() as webhooks:
        plane = ControlPlane(binaries, Path(folder))
        plane.start()
        try:
            for file in sys.argv[1:] or FILES:
                scenes = {
                    "answers": SCENES,
                    "rules": RULE_SCENES,
                    "conversions": conversion_scenes(webhooks),
                }[file]
                _write(file, record(Real(plane.server, plane.token), scenes))
        finally:
            plane.stop()


def _write(file: str, recorded: dict[str, list[Any]]) -> None:
    scenes = [
        f'"{name}": [\n' + ",\n".join(json.dumps(one, sort_keys=True, ensure_ascii=False) for one in answers)
        for name, answers in recorded.items()
    ]
    (DATA / f"{file}.json").write_text("{\n" + "\n],\n".join(scenes) + "\n]\n}\n")
    print(f"{file}: {sum(map(len, recorded.values()))} answers")


if __name__ == "__main__":
    main()
