"""A real control plane for tests: etcd and kube-apiserver, as KUBEBUILDER_ASSETS gives them.

The directory is the ecosystem's own (envtest's). Where it also holds kube-controller-manager or
kube-scheduler, tests that need them run too.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

HOW_TO_GET = (
    "needs a real control plane: set KUBEBUILDER_ASSETS to a directory with etcd and kube-apiserver "
    "(`setup-envtest use 1.36.x` fetches one), or MOORING_TEST_KUBECONFIG to a cluster's kubeconfig"
)

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Request",
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods/binding"]}],
        },
        {
            "level": "RequestResponse",
            "verbs": ["update", "patch"],
            "resources": [{"group": "resource.k8s.io", "resources": ["resourceclaims/status"]}],
        },
        {"level": "None"},
    ],
}
"""So that the server itself records which client bound which pod and allocated which devices."""
NOTHING = {"target": {"name": ""}}


def assets() -> Path | None:
    """Where the binaries are, if they are."""
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    if not folder:
        return None
    found = Path(folder)
    missing = [name for name in ("etcd", "kube-apiserver") if not (found / name).is_file()]
    if missing:
        raise FileNotFoundError(f"KUBEBUILDER_ASSETS={folder} holds no {' and no '.join(missing)}")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Binding(NamedTuple):
    """A request to bind a pod, and how it was answered."""

    pod: str
    node: str
    code: int
    user: str
    agent: str


class ClaimWrite(NamedTuple):
    """A status of a ResourceClaim that was written: the devices that it holds from then on."""

    version: int
    claim: str
    devices: frozenset[tuple[str, str, str]]
    pods: frozenset[str]
    agent: str


class ControlPlane:
    """etcd and kube-apiserver with RBAC, on loopback; killing and starting the latter makes trouble."""

    def __init__(self, binaries: Path, folder: Path, api_server_flags: Sequence[str] = ()) -> None:
        self._api_server_flags = api_server_flags
        self.binaries = binaries
        self.folder = folder
        self.token = secrets.token_hex(16)
        self.port = free_port()
        self.etcd_url = f"http://127.0.0.1:{free_port()}"
        self.server = f"https://127.0.0.1:{self.port}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "audit-policy.yaml").write_text(yaml.safe_dump(AUDIT_POLICY))
        (folder / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')
        _write_key(folder / "service-account.key")

    # ---- life

    def start(self) -> None:
        self.start_etcd()
        self.start_api_server()

    def start_etcd(self) -> None:
        peer = f"http://127.0.0.1:{free_port()}"
        self._spawn(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def start_api_server(self) -> None:
        key = self.folder / "service-account.key"
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.folder / 'certs'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # no controller makes the ServiceAccounts that the one asks for, nor removes the other's taints
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            f"--audit-policy-file={self.folder / 'audit-policy.yaml'}",
            f"--audit-log-path={self.folder / 'audit.log'}",
            "--max-requests-inflight=3000",
            "--max-mutating-requests-inflight=1000",
            "--allow-privileged=true",
            *self._api_server_flags,
        )
        self._wait_ready()

    def kill_api_server(self) -> None:
        """As a crash does it: at once."""
        self._end("kube-apiserver", signal.SIGKILL)

    def kill_etcd(self) -> None:
        """As a crash does it: at once. It comes back with its data."""
        self._end("etcd", signal.SIGKILL)

    def wait_ready(self) -> None:
        self._wait_ready()

    def start_controller_manager(self, *controllers: str) -> None:
        """kube-controller-manager with the controllers named and the API server's feature gates, where the
        binary is at hand."""
        self._spawn(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig()}",
            f"--controllers={','.join(controllers)}",
            "--leader-elect=false",
            f"--secure-port={free_port()}",
            "--bind-address=127.0.0.1",
            "--pvclaimbinder-sync-period=1s",
            *(flag for flag in self._api_server_flags if flag.startswith("--feature-gates=")),
        )

    def stop_controller_manager(self) -> None:
        self._end("kube-controller-manager", signal.SIGTERM)

    @contextmanager
    def kube_scheduler(self, config: Path) -> Iterator[subprocess.Popen[bytes]]:
        """kube-scheduler itself, where the binary is at hand."""
        flags = (f"--config={config}", f"--secure-port={free_port()}", "--bind-address=127.0.0.1", "--v=2")
        try:
            yield self._spawn("kube-scheduler", *flags)
        finally:
            self._end("kube-scheduler", signal.SIGTERM)

    def stop(self) -> None:
        """At once: nothing of it is to be kept."""
        for name in reversed(list(self._running)):
            self._end(name, signal.SIGKILL)

    def has(self, binary: str) -> bool:
        return (self.binaries / binary).is_file()

    def _spawn(self, name: str, *flags: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{name}.log").open("ab")
        command = [str(self.binaries / name), *flags]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        self._running[name] = process
        log.close()
        return process

    def _end(self, name: str, how: signal.Signals) -> None:
        process = self._running.pop(name)
        process.send_signal(how)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait_ready(self, patience: float = 60) -> None:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            process = self._running["kube-apiserver"]
            if process.poll() is not None:
                break
            try:
                self.request("GET", "/readyz")
                self.request("GET", "/api/v1/namespaces/default")
                return
            except OSError:
                time.sleep(0.1)
        log = (self.folder / "kube-apiserver.log").read_text(errors="replace")
        raise RuntimeError(f"kube-apiserver did not become ready; its log ends:\n{log[-2000:]}")

    # ---- use

    def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.server + path, body, headers, method=method)
        with urllib.request.urlopen(request, context=context, timeout=10) as answer:
            data: bytes = answer.read()
            return data

    def bindings(self, namespace: str) -> list[Binding]:
        """All requests to bind pods of a namespace that were ever answered, as the server recorded them."""
        return [
            Binding(
                record["objectRef"]["name"],
                record.get("requestObject", NOTHING)["target"]["name"],  # not where it was forbidden
                record["responseStatus"]["code"],
                record["user"]["username"],
                record["userAgent"],
            )
            for record in self._audit(namespace, "pods")
        ]

    def claim_writes(self, namespace: str) -> list[ClaimWrite]:
        """All statuses of claims of a namespace that were ever written, in etcd's order."""
        writes = []
        for record in self._audit(namespace, "resourceclaims"):
            if record["responseStatus"]["code"] != 200:
                continue
            claim = record["responseObject"]
            status = claim.get("status", {})
            results = status.get("allocation", {}).get("devices", {}).get("results", [])
            writes.append(
                ClaimWrite(
                    int(claim["metadata"]["resourceVersion"]),
                    claim["metadata"]["name"],
                    frozenset((each["driver"], each["pool"], each["device"]) for each in results),
                    frozenset(each["name"] for each in status.get("reservedFor", [])),
                    record["userAgent"],
                )
            )
        return sorted(writes)

    def _audit(self, namespace: str, resource: str) -> Iterator[dict[str, Any]]:
        """The records of finished requests for a resource in a namespace."""
        for line in (self.folder / "audit.log").read_text().splitlines():
            if line.endswith("}"):
                record: dict[str, Any] = json.loads(line)
                where = record["objectRef"]
                if (where["namespace"], where["resource"]) == (namespace, resource):
                    yield record

    def kubeconfig(self, *, token: str = "", name: str = "admin", server: str = "") -> Path:
        """A kubeconfig of the administrator, or of whoever a token belongs to."""
        path = self.folder / f"{name}.kubeconfig"
        config: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": server or self.server,
                        "certificate-authority": str(self.folder / "certs" / "apiserver.crt"),
                    },
                }
            ],
            "users": [{"name": name, "user": {"token": token or self.token}}],
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))
        return path

    def kubectl(self, *args: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as the administrator; what it printed."""
        command = ["kubectl", f"--kubeconfig={self.kubeconfig()}", *args]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
        if check and done.returncode:
            raise RuntimeError(f"kubectl {' '.join(args)}: {done.stderr}")
        return done.stdout


def _write_key(path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    data = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.touch(mode=0o600)
    path.write_bytes(data)
