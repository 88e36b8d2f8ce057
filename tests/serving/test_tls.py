"""How the server proves itself: files given, made or in memory, which may change; what TLS it speaks."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from msgspec.structs import replace

from mooring.client.api_errors import Unreachable
from mooring.serving.certificates import KeyPair, self_signed
from mooring.serving.identity import ServingIdentity
from mooring.serving.settings import EndpointError, EndpointSettings
from mooring.serving.tls import SUITES, make_context
from tests.serving.certificates import ClientAuthority, key_pem, showing
from tests.serving.kit import LOOPBACK, Reviewer, Served, run, serving, trusting_all

TURNED_AWAY = (ssl.SSLError, ConnectionError)


def write(folder: Path, pair: KeyPair, **more: Any) -> EndpointSettings:
    """Settings that name files in a folder, which hold this pair."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return replace(LOOPBACK, tls_cert_file=str(certificate), tls_private_key_file=str(key), **more)


async def shown_by(it: Served) -> bytes:
    """The certificate that a new connection gets, in DER."""
    _, writer = await it.connect()
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


def der(pair: KeyPair) -> bytes:
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    return certificate.public_bytes(serialization.Encoding.DER)


# ---- where the certificate comes from


def test_a_certificate_in_memory_is_for_this_machine_and_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def main() -> None:
        async with serving() as it:
            found = x509.load_der_x509_certificate(await shown_by(it))
            names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            assert names.get_values_for_type(x509.DNSName) == ["localhost"]
            assert "127.0.0.1" in map(str, names.get_values_for_type(x509.IPAddress))
            trusting = ssl.create_default_context(cadata=_pem(found))
            assert (await it.ask("/healthz", context=trusting)).status == 200

    run(main())
    assert list(tmp_path.iterdir()) == []


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def test_the_address_it_listens_on_is_among_the_names() -> None:
    found = x509.load_pem_x509_certificate(self_signed("10.1.2.3").certificate)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(map(str, names.get_values_for_type(x509.IPAddress))) == {"127.0.0.1", "::1", "10.1.2.3"}
    assert "0.0.0.0" not in str(self_signed("0.0.0.0"))


def test_keys_are_not_shown() -> None:
    assert "PRIVATE" not in repr(self_signed("127.0.0.1"))


def test_a_folder_gets_a_certificate_once(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    settings = replace(LOOPBACK, cert_dir=str(folder))
    ServingIdentity(settings)
    certificate, key = folder / "kube-scheduler.crt", folder / "kube-scheduler.key"
    assert key.stat().st_mode & 0o777 == 0o600
    made = KeyPair(certificate.read_bytes(), key.read_bytes())

    async def main() -> None:
        async with serving(settings=settings) as it:
            assert await shown_by(it) == der(made)

    run(main())
    assert made == (certificate.read_bytes(), key.read_bytes())


@pytest.mark.parametrize("missing", ["kube-scheduler.crt", "kube-scheduler.key"])
def test_half_a_pair_in_a_folder_is_not_replaced(tmp_path: Path, missing: str) -> None:
    settings = replace(LOOPBACK, cert_dir=str(tmp_path))
    ServingIdentity(settings)
    (tmp_path / missing).unlink()
    with pytest.raises(EndpointError, match=f"--cert-dir: {tmp_path / missing} is missing"):
        ServingIdentity(settings)
    assert not (tmp_path / missing).exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EndpointError, match="--cert-dir: Not a directory"):
        ServingIdentity(replace(LOOPBACK, cert_dir=str(tmp_path / "file" / "certs")))


def test_files_given_win_over_the_folder(tmp_path: Path) -> None:
    pair = self_signed("127.0.0.1")
    settings = write(tmp_path, pair, cert_dir=str(tmp_path / "certs"))

    async def main() -> None:
        async with serving(settings=settings) as it:
            assert await shown_by(it) == der(pair)

    run(main())
    assert not (tmp_path / "certs").exists()


def test_one_file_without_the_other() -> None:
    with pytest.raises(EndpointError, match="--tls-cert-file requires --tls-private-key-file"):
        ServingIdentity(replace(LOOPBACK, tls_cert_file="x"))
    with pytest.raises(EndpointError, match="--tls-private-key-file requires --tls-cert-file"):
        ServingIdentity(replace(LOOPBACK, tls_private_key_file="x"))


def test_files_that_do_not_load(tmp_path: Path) -> None:
    one, other = self_signed("127.0.0.1"), self_signed("127.0.0.1")
    secret = key_pem(ec.generate_private_key(ec.SECP256R1()), password=b"secret")
    for pair in (
        KeyPair(one.certificate, other.key),
        KeyPair(one.certificate, secret),
        KeyPair(b"", b""),
        KeyPair(b"rubbish", b"rubbish"),
    ):
        settings = write(tmp_path, pair)
        with pytest.raises(EndpointError, match=r"tls.crt and .*tls.key: cannot be loaded"):
            ServingIdentity(settings)
    (tmp_path / "tls.key").unlink()
    with pytest.raises(EndpointError, match=r"tls.key: private key: cannot be read: No such file"):
        ServingIdentity(settings)
    (tmp_path / "tls.crt").write_bytes(b" " * (1 << 20) + b"x")
    with pytest.raises(EndpointError, match="exceeds 1048576 bytes"):
        ServingIdentity(settings)


# ---- files that change


def test_a_new_certificate_is_served_to_whom_connects_next(tmp_path: Path) -> None:
    first, second = self_signed("127.0.0.1"), self_signed("127.0.0.1")
    settings = write(tmp_path, first)

    async def main() -> None:
        async with serving(settings=settings) as it:
            assert await shown_by(it) == der(first)
            await it.server.refresh()
            assert await shown_by(it) == der(first)
            write(tmp_path, second)
            reader, writer = await it.connect()
            await it.server.refresh()
            assert await shown_by(it) == der(second)
            assert await reader.read() == b""  # who was there before is asked to come anew
            writer.close()

    run(main())


def test_a_certificate_that_does_not_load_leaves_the_last_one_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = self_signed("127.0.0.1"), self_signed("127.0.0.1")
    settings = write(tmp_path, first)

    async def main() -> None:
        async with serving(settings=settings) as it:
            (tmp_path / "tls.crt").write_bytes(second.certificate)  # the key follows a moment later
            for _ in range(3):
                await it.server.refresh()
            assert await shown_by(it) == der(first)
            (tmp_path / "tls.key").write_bytes(second.key)
            await it.server.refresh()
            assert await shown_by(it) == der(second)

    run(main())
    told = [each.getMessage() for each in caplog.records if "cannot be loaded" in each.getMessage()]
    assert len(told) == 1
    assert "keeping the previous one" in told[0]


# ---- versions and suites


def speaking(version: ssl.TLSVersion, ciphers: str = "") -> ssl.SSLContext:
    context = trusting_all()
    context.minimum_version = context.maximum_version = version
    if ciphers:
        context.set_ciphers(ciphers)
    return context


def agreed(settings: EndpointSettings, *contexts: ssl.SSLContext) -> list[str | None]:
    """The suites that clients of these kinds come to use; None where there is no agreement."""

    async def main() -> list[str | None]:
        found: list[str | None] = []
        async with serving(settings=settings) as it:
            for context in contexts:
                try:
                    _, writer = await it.connect(context)
                except OSError:
                    found.append(None)
                else:
                    found.append(writer.get_extra_info("cipher")[0])
                    writer.close()
        return found

    return run(main())


TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("minimum", "served"),
    [
        ("", [True, True]),
        ("VersionTLS10", [True, True]),
        ("VersionTLS12", [True, True]),
        ("VersionTLS13", [False, True]),
    ],
)
def test_versions(minimum: str, served: list[bool], caplog: pytest.LogCaptureFixture) -> None:
    found = agreed(replace(LOOPBACK, tls_min_version=minimum), speaking(TLS12), speaking(TLS13))
    assert [each is not None for each in found] == served
    assert ("nothing below TLS 1.2 is served" in caplog.text) == (minimum == "VersionTLS10")


def test_suites() -> None:
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256")
    found = agreed(
        replace(LOOPBACK, tls_cipher_suites=suites),
        speaking(TLS12),
        speaking(TLS12, "ECDHE-ECDSA-AES128-GCM-SHA256"),
        speaking(TLS13),
    )
    assert found[:2] == ["ECDHE-ECDSA-AES256-GCM-SHA384", None]
    assert found[2] is not None


def test_suites_of_tls_1_3_alone_leave_nothing_to_tls_1_2() -> None:
    settings = replace(LOOPBACK, tls_cipher_suites=("TLS_AES_128_GCM_SHA256",))
    found = agreed(settings, speaking(TLS12), speaking(TLS13))
    assert (found[0], found[1] is None) == (None, False)


def test_only_aead_suites_by_default(tmp_path: Path) -> None:
    """Of TLS 1.2, with keys of both kinds; flags may name others."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    by_key = {
        "ECDSA": LOOPBACK,
        "RSA": write(tmp_path, ClientAuthority().issue("server", key=key)),
    }
    for kind, settings in by_key.items():
        cbc = [f"ECDHE-{kind}-AES128-SHA256", f"ECDHE-{kind}-AES256-SHA384", f"ECDHE-{kind}-AES128-SHA"]
        aead = [f"ECDHE-{kind}-AES128-GCM-SHA256", f"ECDHE-{kind}-CHACHA20-POLY1305"]
        found = agreed(settings, *(speaking(TLS12, each) for each in (*cbc, *aead)))
        assert found == [None, None, None, *aead]
    named = replace(LOOPBACK, tls_cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",))
    assert agreed(named, speaking(TLS12, "ECDHE-ECDSA-AES128-SHA256")) == ["ECDHE-ECDSA-AES128-SHA256"]


@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_is_known_to_openssl(suite: str) -> None:
    context = make_context(self_signed("127.0.0.1"), suites=(suite,))
    assert SUITES[suite] in [each["name"] for each in context.get_ciphers()]


def test_flags_that_make_no_sense() -> None:
    with pytest.raises(EndpointError, match='--tls-min-version: invalid value "TLS12"'):
        ServingIdentity(replace(LOOPBACK, tls_min_version="TLS12"))
    with pytest.raises(EndpointError, match='--tls-cipher-suites: unknown suite "RC4"'):
        ServingIdentity(replace(LOOPBACK, tls_cipher_suites=("RC4",)))


# ---- certificates of clients


def test_a_certificate_says_who_a_client_is(tmp_path: Path) -> None:
    authority = ClientAuthority()
    path = tmp_path / "clients.crt"
    path.write_bytes(authority.certificate)

    async def main() -> None:
        async with serving(settings=replace(LOOPBACK, client_ca_file=str(path))) as it:
            it.reviewer.allow("/hello", user="scraper")
            scraper = showing(authority.issue("scraper", "monitoring", "readers"))
            assert (await it.ask("/hello", context=scraper)).status == 200
            [review] = it.reviewer.reviewed
            assert review["spec"]["groups"] == ["monitoring", "readers", "system:authenticated"]
            other = await it.ask("/hello", context=showing(authority.issue("other")))
            assert other.refusal == (403, "Forbidden", 'forbidden: User "other" cannot get path "/hello"')
            nameless = await it.ask("/hello", context=showing(authority.issue("", "monitoring")))
            assert nameless.status == 401
            assert (await it.ask("/hello")).status == 401

    run(main())


def test_certificates_of_strangers_are_not_believed(tmp_path: Path) -> None:
    authority, stranger = ClientAuthority(), ClientAuthority("strangers")
    path = tmp_path / "clients.crt"
    path.write_bytes(authority.certificate)
    server_auth = x509.oid.ExtendedKeyUsageOID.SERVER_AUTH

    async def main() -> None:
        async with serving(settings=replace(LOOPBACK, client_ca_file=str(path))) as it:
            it.reviewer.allow("/hello", user="scraper")
            for pair in (stranger.issue("scraper"), authority.issue("scraper", purpose=server_auth)):
                with pytest.raises(TURNED_AWAY):
                    await it.ask("/hello", context=showing(pair))
            assert it.reviewer.reviewed == []

    run(main())


def test_authorities_that_do_not_load(tmp_path: Path) -> None:
    path = tmp_path / "clients.crt"
    for content in (b"rubbish", "ü".encode()):
        path.write_bytes(content)
        with pytest.raises(EndpointError, match=r"clients.crt: contains no PEM certificate"):
            ServingIdentity(replace(LOOPBACK, client_ca_file=str(path)))
    os.unlink(path)
    with pytest.raises(EndpointError, match=r"clients.crt: client authorities: cannot be read"):
        ServingIdentity(replace(LOOPBACK, client_ca_file=str(path)))


# ---- looking up whom the API server believes


def test_authorities_are_looked_up_and_followed() -> None:
    first, second = ClientAuthority("first"), ClientAuthority("second")
    reviewer = Reviewer()
    reviewer.believe(first.certificate)

    async def main() -> None:
        async with serving(reviewer=reviewer) as it:
            reviewer.allow("/hello", user="scraper")
            await it.server.refresh()
            early = showing(first.issue("scraper"))
            assert (await it.ask("/hello", context=early)).status == 200
            reviewer.believe(second.certificate)
            await it.server.refresh()
            assert (await it.ask("/hello", context=showing(second.issue("scraper")))).status == 200
            with pytest.raises(TURNED_AWAY):
                await it.ask("/hello", context=early)
            reviewer.refusals["get", "configmaps"] = Unreachable("https://api", "connection refused")
            await it.server.refresh()
            assert (await it.ask("/hello", context=showing(second.issue("scraper")))).status == 200

    run(main())


def test_nothing_is_looked_up_where_that_is_not_wanted(tmp_path: Path) -> None:
    path = tmp_path / "clients.crt"
    path.write_bytes(ClientAuthority().certificate)

    async def main() -> None:
        for settings in (
            replace(LOOPBACK, authentication_skip_lookup=True),
            replace(LOOPBACK, client_ca_file=str(path), authentication_tolerate_lookup_failure=False),
        ):
            reviewer = Reviewer()
            identity = ServingIdentity(settings, reviewer)
            await identity.prepare()
            await identity.refresh()
            assert reviewer.requests == []

    run(main())


def test_a_failing_lookup_is_fatal_only_where_the_settings_say_so(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        reviewer = Reviewer()
        tolerant = ServingIdentity(LOOPBACK, reviewer)
        await tolerant.prepare()
        for _ in range(3):
            assert await tolerant.refresh() is False
        [told] = [each.getMessage() for each in caplog.records]
        assert told.startswith("configmap kube-system/extension-apiserver-authentication: ")
        strict = ServingIdentity(replace(LOOPBACK, authentication_tolerate_lookup_failure=False), reviewer)
        with pytest.raises(EndpointError, match=r"extension-apiserver-authentication: .* not found"):
            await strict.prepare()
        reviewer.believe(ClientAuthority().certificate)
        await strict.prepare()
        assert await strict.refresh() is True

    run(main())
