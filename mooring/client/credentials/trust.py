"""CA bundle for verifying the server, and the TLS contexts built from it."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

import msgspec

from mooring.client.api_errors import CredentialsError
from mooring.client.credentials.identity import Proof, content_of


class Trust(msgspec.Struct, frozen=True):
    """The certificate authorities of a server: PEM, a file with it, or nothing for the system's."""

    authorities: bytes | Path = b""
    insecure: bool = False  # take any certificate
    field: str = "certificate-authority-data"  # how messages call the PEM

    def read(self) -> bytes:
        """The authorities as PEM. Raises CredentialsError."""
        return content_of(self.authorities, "certificate-authority")

    def where(self) -> str:
        """How messages call the authorities."""
        file = isinstance(self.authorities, Path)
        return f"{self.authorities!s}: certificate-authority" if file else self.field


def tls_context(trust: Trust, authorities: bytes, proof: Proof) -> ssl.SSLContext:
    """A context for connections to the server. Raises CredentialsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.verify_flags |= (
        ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    )  # Go trusts an intermediate that it is given
    if trust.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authorities:
        try:
            context.load_verify_locations(cadata=authorities.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError):
            raise CredentialsError(f"{trust.where()}: found no certificate, expected PEM") from None
    else:
        context.load_default_certs()
    if proof.certificate:
        _load_certificate(context, proof)
    return context


def _load_certificate(context: ssl.SSLContext, proof: Proof) -> None:
    """Hand a client certificate over; OpenSSL takes files only, so one exists, for us alone, for a moment."""
    handle, path = tempfile.mkstemp(prefix="mooring-")  # mode 600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(proof.certificate + b"\n" + proof.key)
        context.load_cert_chain(path, password=_no_password)
    except ssl.SSLError as error:
        raise CredentialsError(
            f"{proof.field}: cannot load ({error.reason or 'no PEM'}), "
            "expected a certificate and its unencrypted key, both PEM"
        ) from None
    finally:
        os.unlink(path)


def _no_password() -> str:
    """Never ask at the terminal."""
    return ""
