"""URLs in configurations."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit


def is_http(url: str) -> bool:
    """Whether it is http or https to some host."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return good and is_path(url)


def is_path(text: str) -> bool:
    """Whether it can stand in a URL as it is."""
    return text.isascii() and not any(character <= " " for character in text)


def without_password(url: str) -> str:
    """Return the URL with its password masked, for logs and messages."""
    try:
        parts = urlsplit(url)
        user, at, host = parts.netloc.rpartition("@")
    except ValueError:
        return url
    name, colon, _ = user.partition(":")
    return urlunsplit(parts._replace(netloc=f"{name}:xxxxx@{host}")) if at and colon else url
