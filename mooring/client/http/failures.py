"""Why there was no answer, in words."""

from __future__ import annotations

import ssl


def describe(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "what listens there does not speak TLS"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    if isinstance(error, ConnectionResetError) and not str(error):  # as uvloop says it in a TLS handshake
        return "connection reset by peer"
    return str(error) or type(error).__name__
