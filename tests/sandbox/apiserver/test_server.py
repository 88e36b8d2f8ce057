"""What clients know a server by stays the same as long as its data directory does."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest
from cryptography import x509

from mooring.sandbox.apiserver.http.identity import kept_certificates, kept_token, last_port
from tests.sandbox.apiserver.kit import Running, running

MAPS = "/api/v1/namespaces/default/configmaps"


def names(server: Running) -> list[str]:
    return [item["metadata"]["name"] for item in server.ask("GET", MAPS).tree["items"]]


def test_a_kubeconfig_is_good_after_a_restart_too(tmp_path: Path) -> None:
    with running(data_dir=tmp_path) as server:
        assert server.server.kubeconfig == tmp_path / "kubeconfig"
        first = server.server.kubeconfig.read_bytes()
        server.ask("POST", MAPS, {"metadata": {"name": "kept"}})
    with running(data_dir=tmp_path) as server:
        assert server.server.kubeconfig.read_bytes() == first, "token, authority and address are the same"
        assert names(server) == ["kept"]


def test_only_the_owner_may_read_what_lets_one_in(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with running(data_dir=folder):
        pass
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes.keys() >= {"kubeconfig", "token", "ca.crt", "server.crt", "server.key", "store.sqlite"}
    assert set(modes.values()) == {0o600}, modes


def test_without_a_data_directory_nothing_is_left() -> None:
    with running() as server:
        kubeconfig = server.server.kubeconfig
        assert kubeconfig.exists()
    assert not kubeconfig.parent.exists()


def test_another_port_is_taken_where_the_last_one_is_not_free(tmp_path: Path) -> None:
    with running(data_dir=tmp_path):
        pass
    port = last_port(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with running(data_dir=tmp_path) as server:
            assert last_port(tmp_path) == int(server.server.url.rpartition(":")[2]) != port
            assert names(server) == []


def test_a_token_that_could_be_guessed_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    token = kept_token(tmp_path)
    assert len(token) >= 32
    assert kept_token(tmp_path) == token


def test_certificates_are_kept_while_they_will_do(tmp_path: Path) -> None:
    first = kept_certificates(tmp_path, "127.0.0.1")
    assert kept_certificates(tmp_path, "localhost") == first
    other = kept_certificates(tmp_path, "example.com")
    assert other != first
    names = x509.load_pem_x509_certificate(other.certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert "example.com" in names.value.get_values_for_type(x509.DNSName)
    (tmp_path / "server.crt").write_bytes(b"nonsense")
    assert kept_certificates(tmp_path, "example.com") != other


@pytest.mark.parametrize("text", ["", "a: b", "[", "clusters: [{cluster: {server: 7}}]"])
def test_a_kubeconfig_that_makes_no_sense_names_no_port(tmp_path: Path, text: str) -> None:
    (tmp_path / "kubeconfig").write_text(text)
    assert last_port(tmp_path) == 0
