"""Users: who makes a request."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

MASTERS: Final = "system:masters"
"""Members of this group may do everything, whatever the roles say."""
ACCOUNT: Final = "system:serviceaccount:"
"""Prefix of the user names of service accounts."""
NODE_NAME: Final = "authentication.kubernetes.io/node-name"
"""What `User.extra` has for the token of a pod: the name of its node."""


class User(NamedTuple):
    """The identity that a request is authorized for."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further names and values, such as the pod that a token was issued for."""

    @property
    def info(self) -> dict[str, Any]:
        """Return the UserInfo of reviews and policies."""
        info: dict[str, Any] = {"username": self.name, "groups": list(self.groups)}
        if self.uid:
            info["uid"] = self.uid
        if self.extra:
            info["extra"] = {name: list(values) for name, values in self.extra}
        return info


IN_PROCESS: Final = User("system:mooring", (MASTERS, "system:authenticated"))
"""Callers in this process, without HTTP."""
ADMIN: Final = User("mooring-admin", (MASTERS, "system:authenticated"))


def service_account(namespace: str, name: str) -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"{ACCOUNT}{namespace}:{name}", groups)
