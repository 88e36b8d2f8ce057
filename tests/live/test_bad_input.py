"""Servers that cannot be reached, trusted or understood, and credentials that are refused.

Each is told in one line that says what is wrong, and tried again; nothing else stops.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from tests.live.cluster import TestCluster
from tests.live.control_plane import ControlPlane, free_port
from tests.live.cut_proxy import ProxyThread
from tests.live.meddler import Meddler
from tests.live.replica import SYNCED, Replica, configuration
from tests.live.scene import Scene

SCHEDULER = "mooring-bad-input"


@pytest.fixture(autouse=True)
def scheduler_name(scene: Scene) -> None:
    scene.scheduler_name = SCHEDULER


def complaints(replica: Replica) -> list[str]:
    """All that it warns of."""
    return [line for line in replica.log.splitlines() if line.startswith(("W", "E", "F"))]


class TestAtTheStart:
    def test_a_server_that_is_not_there_yet(
        self, scene: Scene, control_plane: ControlPlane, cluster: TestCluster
    ) -> None:
        node = scene.node("a")
        with ProxyThread(control_plane.port) as proxy:
            proxy.cut()
            later = cluster.kubeconfig(token=cluster.token("mooring", "mooring"), server=proxy.server)
            with Replica(cluster.folder, configuration(later, SCHEDULER)) as replica:
                replica.says(proxy.server, "retrying")
                proxy.mend()
                scene.pod("web")
                assert scene.bound("web") == [node]
                assert len(complaints(replica)) == 1
                assert replica.end() == 0

    def test_a_port_where_nobody_listens(self, cluster: TestCluster) -> None:
        server = f"https://127.0.0.1:{free_port()}"
        nowhere = cluster.kubeconfig(server=server)
        with Replica(cluster.folder, configuration(nowhere, SCHEDULER)) as replica:
            line = replica.says(server, "retrying")
            assert "refused" in line
            assert replica.end() == 0
            assert complaints(replica) == [line]

    def test_a_server_of_another_ca(self, cluster: TestCluster, another_ca: Path) -> None:
        wrong = cluster.kubeconfig(ca=another_ca)
        with Replica(cluster.folder, configuration(wrong, SCHEDULER)) as replica:
            line = replica.says("certificate")
            assert "retrying" in line
            assert replica.end() == 0
            assert complaints(replica) == [line]

    def test_a_token_that_is_refused_and_renewed(
        self, scene: Scene, cluster: TestCluster, tmp_path: Path
    ) -> None:
        """As one that has expired: the file that it comes from is looked at again."""
        token = tmp_path / "token"
        token.write_text("that-was-once-a-token")
        file = cluster.kubeconfig()
        config = yaml.safe_load(file.read_text())
        config["users"][0]["user"] = {"tokenFile": str(token)}
        file.write_text(yaml.safe_dump(config))
        node = scene.node("a")
        with Replica(cluster.folder, configuration(file, SCHEDULER)) as replica:
            line = replica.says("the API server rejected the credentials")
            assert "Unauthorized" in line
            assert "that-was-once-a-token" not in replica.log
            assert complaints(replica) == [line]
            token.write_text(cluster.token("mooring", "mooring"))
            scene.pod("web")
            assert scene.bound("web") == [node]
            assert replica.end() == 0

    def test_no_kubernetes_at_all(self, cluster: TestCluster, control_plane: ControlPlane) -> None:
        def nonsense(path: str, data: bytes) -> Iterable[bytes]:
            return [b"<html>It works!</html>"]

        with Meddler(control_plane, nonsense) as other:
            wrong = cluster.kubeconfig(server=other.server)
            with Replica(cluster.folder, configuration(wrong, SCHEDULER)) as replica:
                line = replica.says("invalid response")
                assert "It works!" in line
                assert replica.lines(SYNCED) == []
                assert replica.running
                assert replica.end() == 0


class TestInTheStream:
    """What comes between us and the server is not what the server said."""

    def test_garbage(self, scene: Scene, cluster: TestCluster, control_plane: ControlPlane) -> None:
        garbage = [b"\x00\xff\xfe{{{\n", b'{"type":"ADDED","object":[1,2]}\n', b'{"type":"SUNK"}\n', b"7\n"]
        sent: list[bytes] = []

        def meddle(path: str, line: bytes) -> Iterable[bytes]:
            if "/pods?" in path and b"provoke" in line and garbage:
                sent.append(garbage.pop())
                return [sent[-1], line]
            return [line]

        node = scene.node("a")
        with Meddler(control_plane, meddle) as other:
            between = cluster.kubeconfig(server=other.server)
            with Replica(cluster.folder, configuration(between, SCHEDULER)) as replica:
                replica.ready()
                for number in range(4):
                    scene.pod(f"provoke-{number}")
                    assert scene.bound(f"provoke-{number}") == [node]
                assert len(sent) == 4
                assert replica.lines("invalid response")
                assert replica.end() == 0

    def test_objects_with_fields_of_the_wrong_type(
        self, scene: Scene, cluster: TestCluster, control_plane: ControlPlane
    ) -> None:
        def meddle(path: str, line: bytes) -> Iterable[bytes]:
            if "/pods?" not in path or b'"crooked"' not in line or not line.startswith(b'{"type"'):
                return [line]
            change = json.loads(line)
            if change["object"]["metadata"]["name"] == "crooked":
                change["object"]["spec"]["priority"] = "very"
            return [json.dumps(change).encode() + b"\n"]

        node = scene.node("a")
        with Meddler(control_plane, meddle) as other:
            between = cluster.kubeconfig(server=other.server)
            with Replica(cluster.folder, configuration(between, SCHEDULER)) as replica:
                replica.ready()
                scene.pod("crooked")
                scene.pod("straight")
                assert scene.bound("straight") == [node]
                line = replica.says(f"{scene.namespace}/crooked")
                assert "spec.priority" in line
                scene.api.patch(f"{scene.pods_path}/crooked", {"metadata": {"labels": {"a": "b"}}})
                scene.pod("later")
                assert scene.bound("later") == [node]
                assert scene.node_of("crooked") == ""
                assert complaints(replica) == [line]
                assert replica.end() == 0


@pytest.fixture
def another_ca(tmp_path: Path) -> Path:
    """A CA that signed nothing of this cluster."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "another CA")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "another-ca.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return path
