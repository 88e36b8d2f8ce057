"""What can be wrong with credentials."""

from __future__ import annotations


class CredentialsError(ValueError):
    """Credentials that cannot be used: which file and field, what was found and what was expected."""
