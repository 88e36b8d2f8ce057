"""The users and groups that well-known images have, and what they run by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Account(NamedTuple):
    """A user of an image. `groups` are those that it is a member of in addition to its own."""

    name: str
    gid: int = 0
    groups: tuple[int, ...] = ()


class Image(NamedTuple):
    """What is known of an image: the user that it runs as, accounts by uid, and names of groups. Accounts
    below `unknown` that are not listed may exist."""

    user: int = 0
    accounts: Mapping[int, Account] = {0: Account("root")}
    groups: Mapping[int, str] = {0: "root"}
    unknown: int = 1000
    command: tuple[str, ...] = ()

    def find_account(self, uid: int) -> Account | None:
        """Return an account; None if there is none. Raises LookupError if that is not known."""
        if uid not in self.accounts and uid < self.unknown:
            raise LookupError(uid)
        return self.accounts.get(uid)


_ALPINE_GROUPS: Final = {
    0: "root", 1: "bin", 2: "daemon", 3: "sys", 4: "adm", 6: "disk", 10: "wheel", 11: "floppy",
    20: "dialout", 26: "tape", 27: "video", 65534: "nobody",
}  # fmt: skip
_ALPINE_ACCOUNTS: Final = {
    0: Account("root", 0, tuple(gid for gid in _ALPINE_GROUPS if 0 < gid < 65534)),
    65534: Account("nobody", 65534),
}
_DEBIAN: Final = Image(
    accounts={0: Account("root"), 65534: Account("nobody", 65534)}, groups={0: "root", 65534: "nogroup"}
)
_IMAGES: Final = {
    "busybox": Image(
        accounts={
            0: Account("root", 0, (10,)),
            1: Account("daemon", 1),
            2: Account("bin", 2),
            3: Account("sys", 3),
            4: Account("sync", 100),
            8: Account("mail", 8),
            33: Account("www-data", 33),
            37: Account("operator", 37),
            65534: Account("nobody", 65534),
        },
        groups={
            0: "root", 1: "daemon", 2: "bin", 3: "sys", 4: "adm", 5: "tty", 6: "disk", 7: "lp", 8: "mail",
            9: "kmem", 10: "wheel", 11: "cdrom", 18: "dialout", 24: "floppy", 28: "video", 29: "audio",
            32: "tape", 33: "www-data", 37: "operator", 43: "utmp", 46: "plugdev", 50: "staff", 99: "lock",
            100: "netdev", 65534: "nobody",
        },
        unknown=0,
    ),
    "alpine": Image(accounts=_ALPINE_ACCOUNTS, groups=_ALPINE_GROUPS),
    "agnhost": Image(
        accounts={**_ALPINE_ACCOUNTS, 1000: Account("user-defined-in-image", 1000, (50000,))},
        groups={**_ALPINE_GROUPS, 1000: "user-defined-in-image", 50000: "group-defined-in-image"},
        command=("/agnhost", "pause"),
    ),
    "debian": _DEBIAN,
    "ubuntu": _DEBIAN._replace(unknown=1001),
    "nonroot": Image(user=1234, unknown=0),
    "resource-consumer": Image(command=("/consumer",), unknown=0),
    "nonewprivs": Image(command=("nnp",), unknown=0),
}  # fmt: skip
UNKNOWN_IMAGE: Final = Image(unknown=2**31)


def image_name(image: str) -> str:
    """Return the last part of an image's name, without tag and digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def find_image(image: str) -> Image:
    """Return what is known of an image."""
    return _IMAGES.get(image_name(image), UNKNOWN_IMAGE)
