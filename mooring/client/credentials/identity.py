"""Proof of who we are: a token, a password, a client certificate; given, or read from files that rotate."""

from __future__ import annotations

import base64
import math
from pathlib import Path
from typing import Protocol

import msgspec

from mooring.client.api_errors import CredentialsError

FILES_HOLD_FOR = 60.0
"""Seconds after which files are read again: the kubelet and certificate managers replace them in place."""
_LARGEST_FILE = 1024**2


class Proof(msgspec.Struct, frozen=True):
    """What a request shows: an Authorization header, a client certificate with its key, both or none."""

    authorization: str = ""
    certificate: bytes = b""  # PEM
    key: bytes = b""
    holds_for: float = math.inf  # seconds
    field: str = "client-certificate"  # how messages call the certificate

    def __repr__(self) -> str:
        return f"Proof(holds_for={self.holds_for})"


class Identity(Protocol):
    """Where proof comes from."""

    async def prove(self) -> Proof:
        """Proof that holds now. Raises CredentialsError."""
        ...


class PlainIdentity:
    """What a kubeconfig says itself. Files win over nothing, and text in the kubeconfig over files, but for a
    token, where the file wins."""

    def __init__(
        self,
        *,
        token: str = "",
        token_file: Path | None = None,
        username: str = "",
        password: str = "",
        certificate: bytes | Path = b"",
        key: bytes | Path = b"",
        field: str = "client-certificate",
    ) -> None:
        self._token = token
        self._token_file = token_file
        self._basic = basic_authorization(username, password) if username or password else ""
        self._certificate = certificate
        self._key = key
        self._field = field

    async def prove(self) -> Proof:
        return self.read()

    def read(self) -> Proof:
        sources = (self._token_file, self._certificate, self._key)
        return Proof(
            self._authorization(),
            content_of(self._certificate, "client-certificate"),
            content_of(self._key, "client-key"),
            FILES_HOLD_FOR if any(isinstance(source, Path) for source in sources) else math.inf,
            self._field,
        )

    def _authorization(self) -> str:
        token = self._token
        if self._token_file is not None:
            token = token_of(content_of(self._token_file, "tokenFile"), f"{self._token_file}: tokenFile")
        return f"Bearer {token}" if token else self._basic


def basic_authorization(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode("ascii")


def token_of(content: bytes, where: str) -> str:
    """A token without the space around it. Raises CredentialsError unless it can stand in a header."""
    try:
        token = content.decode("ascii").strip()
    except UnicodeDecodeError:
        raise CredentialsError(f"{where}: found bytes that are not ASCII, expected a token") from None
    if not token or not token.isprintable() or " " in token:
        actual = "nothing" if not token else "text with spaces or control characters"
        raise CredentialsError(f"{where}: found {actual}, expected a token")
    return token


def content_of(source: bytes | Path, field: str) -> bytes:
    """Bytes as they are, a file's content. Raises CredentialsError."""
    if not isinstance(source, Path):
        return source
    try:
        with source.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise CredentialsError(f"{source}: {field}: cannot be read: {error.strerror}") from None
    if len(content) > _LARGEST_FILE:
        raise CredentialsError(f"{source}: {field}: file exceeds {_LARGEST_FILE} bytes")
    return content
