"""A cluster to test on: the control plane of these tests, or the one that MOORING_TEST_KUBECONFIG names."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from mooring.client.credentials import load_credentials

Object = dict[str, Any]

JSON = "application/json"
MERGE = "application/merge-patch+json"


class RefusedError(Exception):
    """An answer of 400 or above."""

    def __init__(self, code: int, body: Object) -> None:
        super().__init__(f"{code}: {body.get('message')}")
        self.code = code


class Api:
    """Plain requests with the credentials of a kubeconfig, none of which is Mooring's own client."""

    def __init__(self, kubeconfig: Path) -> None:
        credentials = load_credentials(str(kubeconfig))
        asyncio.run(credentials.renew())
        lines = credentials.access.headers.decode().splitlines()
        self._headers = {name: value for name, _, value in (line.partition(": ") for line in lines)}
        url = urlsplit(credentials.server)
        self._prefix = url.path.rstrip("/")
        self._connection = http.client.HTTPSConnection(
            url.hostname or "", url.port, context=credentials.access.tls, timeout=30
        )

    def close(self) -> None:
        self._connection.close()

    def request(self, method: str, path: str, body: Any = None, kind: str = JSON) -> Any:
        data = None if body is None else json.dumps(body)
        headers = {**self._headers, "Content-Type": kind}
        try:
            code, found = self._ask(method, self._prefix + path, data, headers)
        except (OSError, http.client.HTTPException):  # the server was restarted, perhaps
            self._connection.close()
            code, found = self._ask(method, self._prefix + path, data, headers)
        if code >= 400:
            raise RefusedError(code, found)
        return found

    def _ask(self, method: str, path: str, data: str | None, headers: dict[str, str]) -> tuple[int, Any]:
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def create(self, path: str, body: Any) -> Any:
        return self.request("POST", path, body)

    def patch(self, path: str, body: Any) -> Any:
        return self.request("PATCH", path, body, MERGE)

    def delete(self, path: str, **options: Any) -> None:
        """Whether it is there or not."""
        try:
            self.request("DELETE", path, options or None)
        except RefusedError as refusal:
            if refusal.code != 404:
                raise


class TestCluster:
    """Where a kubeconfig of an administrator leads."""

    __test__ = False

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.folder = folder
        self.admin = kubeconfig
        self.api = Api(kubeconfig)

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        command = ["kubectl", f"--kubeconfig={self.admin}", *args]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"kubectl {' '.join(args)}: {done.stderr}")
        return done.stdout

    def kubeconfig(self, *, token: str = "", server: str = "", ca: Path | None = None) -> Path:
        """The administrator's kubeconfig with another user's token, another address or another CA."""
        shown = self.kubectl("config", "view", "--minify", "--raw", "--flatten", "-o", "yaml")
        config = yaml.safe_load(shown)
        if token:
            config["users"][0]["user"] = {"token": token}
        cluster = config["clusters"][0]["cluster"]
        if server:
            cluster["server"] = server
        if ca is not None:
            cluster.pop("certificate-authority-data", None)
            cluster["certificate-authority"] = str(ca)
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".kubeconfig", delete=False) as file:
            yaml.safe_dump(config, file)
        return Path(file.name)

    def token(self, account: str, namespace: str, duration: str = "1h") -> str:
        """A token of a ServiceAccount."""
        return self.kubectl(
            "create", "token", account, f"--namespace={namespace}", f"--duration={duration}"
        ).strip()
