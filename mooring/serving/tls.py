"""TLS contexts of servers, and the files that they are made from, which may change."""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
from pathlib import Path

from mooring.serving.certificates import KeyPair, self_signed
from mooring.serving.settings import EndpointError, EndpointSettings

log = logging.getLogger("mooring.serving")

LARGEST_FILE = 1 << 20
PAIR_NAME = "kube-scheduler"

VERSIONS = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,  # nothing older is served
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}

SUITES_OF_TLS_1_3 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""Always enabled, as in Go, which cannot disable them either."""

AEAD_SUITES = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The suites of TLS 1.2 that are served unless flags name others: none with CBC."""

SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
}


class TlsFiles:
    """The server's certificate and the authorities of clients, from where the settings say.

    Files are read at each call; a certificate that the server made for itself in memory stays the same.
    """

    def __init__(self, settings: EndpointSettings) -> None:
        self._settings = settings
        if bool(settings.tls_cert_file) != bool(settings.tls_private_key_file):
            present, missing = "--tls-cert-file", "--tls-private-key-file"
            if settings.tls_private_key_file:
                present, missing = missing, present
            raise EndpointError(f"{present} requires {missing}")
        self._certificate, self._key = settings.tls_cert_file, settings.tls_private_key_file
        self._own: KeyPair | None = None
        if not self._certificate and settings.cert_dir:
            self._certificate, self._key = self._in(Path(settings.cert_dir))
        elif not self._certificate:
            self._own = self_signed(settings.bind_address)

    def _in(self, folder: Path) -> tuple[str, str]:
        """Return the files of the pair in a folder. They are made if there are none."""
        certificate, key = (folder / f"{PAIR_NAME}.{end}" for end in ("crt", "key"))
        if certificate.exists() != key.exists():
            present, missing = (certificate, key) if certificate.exists() else (key, certificate)
            raise EndpointError(
                f"--cert-dir: {missing} is missing\nhint: restore it, or remove {present} to make a new pair"
            )
        if not key.exists():
            pair = self_signed(self._settings.bind_address)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                _write(certificate, pair.certificate, 0o644)
                _write(key, pair.key, 0o600)
            except OSError as error:
                raise EndpointError(f"{error.filename}: --cert-dir: {error.strerror}") from None
            log.info("created certificate %s", certificate)
        return str(certificate), str(key)

    def pair(self) -> KeyPair:
        """Raises EndpointError."""
        if self._own is not None:
            return self._own
        return KeyPair(_read(self._certificate, "certificate"), _read(self._key, "private key"))

    def client_authorities(self) -> bytes:
        """Return the CA bundle of the settings; empty without one. Raises EndpointError."""
        path = self._settings.client_ca_file
        return _read(path, "client authorities") if path else b""

    def describe(self) -> str:
        """Return what messages call the pair."""
        return f"{self._certificate} and {self._key}" if self._own is None else "the server's own certificate"


def make_context(
    pair: KeyPair,
    described: str = "the server's own certificate",
    *,
    minimum: str = "",
    suites: tuple[str, ...] = (),
    client_authorities: bytes = b"",
    client_ca_file: str = "",
) -> ssl.SSLContext:
    """Make the context of a server. `described` is what messages call the pair. Raises EndpointError.

    Clients may present a certificate; if they do, one of the authorities must have signed it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION
    restrict(context, minimum, suites)
    _load(context, pair, described)
    if client_authorities:
        context.verify_mode = ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(cadata=client_authorities.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError):
            where = client_ca_file or "client-ca-file"
            raise EndpointError(f"{where}: contains no PEM certificate") from None
    return context


def restrict(context: ssl.SSLContext, minimum: str, suites: tuple[str, ...]) -> None:
    """Allow the versions and suites of the flags, only AEAD suites by default. Raises EndpointError."""
    if minimum not in VERSIONS:
        valid = ", ".join(filter(None, VERSIONS))
        raise EndpointError(f'--tls-min-version: invalid value "{minimum}"\nhint: use one of {valid}')
    context.minimum_version = VERSIONS[minimum]
    if not suites:
        context.set_ciphers(AEAD_SUITES)
        return
    for suite in suites:
        if suite not in SUITES and suite not in SUITES_OF_TLS_1_3:
            valid = ", ".join([*SUITES_OF_TLS_1_3, *SUITES])
            raise EndpointError(f'--tls-cipher-suites: unknown suite "{suite}"\nhint: use some of {valid}')
    older = [SUITES[suite] for suite in suites if suite in SUITES]
    if not older:  # none is left for TLS 1.2
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    try:
        context.set_ciphers(":".join(older))
    except ssl.SSLError:
        names = ", ".join(suites)
        raise EndpointError(f"--tls-cipher-suites: OpenSSL supports none of {names} here") from None


def _load(context: ssl.SSLContext, pair: KeyPair, described: str) -> None:
    """Load a pair. OpenSSL reads only files, so there is one for a moment, which only its owner can read."""
    handle, path = tempfile.mkstemp(prefix="mooring-")  # mode 600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pair.certificate + b"\n" + pair.key)
        context.load_cert_chain(path, password=_no_password)
    except ssl.SSLError as error:
        raise EndpointError(
            f"{described}: cannot be loaded: {error.reason or 'not PEM'}\n"
            "hint: use a PEM certificate and its unencrypted PEM key"
        ) from None
    finally:
        os.unlink(path)


def _no_password() -> str:
    """Do not prompt on the terminal."""
    return ""


def _read(path: str, what: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise EndpointError(f"{path}: {what}: cannot be read: {error.strerror}") from None
    if len(content) > LARGEST_FILE:
        raise EndpointError(f"{path}: {what}: exceeds {LARGEST_FILE} bytes")
    return content


def _write(path: Path, content: bytes, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
