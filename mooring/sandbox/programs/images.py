"""What is known of well-known images: their users, groups and files, and what they run by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
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
    files: Mapping[str, str | None] = {}
    """Some of its files, by path. The content of those with None is not known."""
    uses_loads: bool = False
    """Whether it uses CPU and memory only as its clients request."""

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
UNKNOWN_IMAGE: Final = Image(unknown=2**31)
_RELEASE: Final = "etc/os-release"
"""A file that says which distribution an image is made of; here without its version."""
_ALPINE_FILES: Final = {
    _RELEASE: 'NAME="Alpine Linux"\nID=alpine\nPRETTY_NAME="Alpine Linux"\nHOME_URL="https://alpinelinux.org/"\n'
}
_DEBIAN: Final = Image(
    accounts={0: Account("root"), 65534: Account("nobody", 65534)},
    groups={0: "root", 65534: "nogroup"},
    files={_RELEASE: 'PRETTY_NAME="Debian GNU/Linux"\nNAME="Debian GNU/Linux"\nID=debian\n'},
)


def _update_demo(name: str) -> Image:
    """Return an image that serves its own files: a picture, and which one it is."""
    return UNKNOWN_IMAGE._replace(files={**_ALPINE_FILES, "data.json": f'{{\n  "image": "{name}.jpg"\n}}\n'})


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
    "alpine": Image(accounts=_ALPINE_ACCOUNTS, groups=_ALPINE_GROUPS, files=_ALPINE_FILES),
    "agnhost": Image(
        accounts={**_ALPINE_ACCOUNTS, 1000: Account("user-defined-in-image", 1000, (50000,))},
        groups={**_ALPINE_GROUPS, 1000: "user-defined-in-image", 50000: "group-defined-in-image"},
        command=("/agnhost", "pause"),
        files={**_ALPINE_FILES, **dict.fromkeys(("agnhost", "localhost.crt", "localhost.key"))},
    ),
    "debian": _DEBIAN,
    "ubuntu": _DEBIAN._replace(
        unknown=1001, files={_RELEASE: 'PRETTY_NAME="Ubuntu"\nNAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n'}
    ),
    "e2e-test-images/nonroot": Image(user=1234, unknown=0),
    "e2e-test-images/resource-consumer": Image(command=("/consumer",), unknown=0, uses_loads=True),
    "e2e-test-images/sample-apiserver": Image(command=("sample-apiserver",), unknown=0),
    "e2e-test-images/nonewprivs": Image(command=("nnp",), unknown=0),
    "e2e-test-images/nautilus": _update_demo("nautilus"),
    "e2e-test-images/kitten": _update_demo("kitten"),
}  # fmt: skip


PLAIN_IMAGES: Final = frozenset(("busybox", "alpine", "agnhost", "debian", "ubuntu"))
"""Images that set no variables but PATH, and have no folders but the standard ones."""
_STANDARD_FOLDERS: Final = frozenset(
    ("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "proc", "root", "run",
     "sbin", "sys", "tmp", "usr", "var")
)  # fmt: skip
"""Folders that have something in them in one of these images."""


def lacks_folder(image: str, name: str) -> bool:
    """Whether an image is known to have nothing in a folder at its root."""
    return image_name(image) in PLAIN_IMAGES and name not in _STANDARD_FOLDERS


def image_name(image: str) -> str:
    """Return the last part of an image's name, without tag and digest."""
    return short_names(image)[1]


@lru_cache(1024)
def short_names(image: str) -> tuple[str, str]:
    """Return the last two parts and the last part of an image's name, without tag and digest. Tables with
    images that are common enough have the last part, others both."""
    folder, _, name = image.partition("@")[0].rpartition("/")
    name = name.partition(":")[0]
    return f"{folder.rpartition('/')[2]}/{name}", name


@lru_cache(1024)
def find_image(image: str) -> Image:
    """Return what is known of an image."""
    both, name = short_names(image)
    return _IMAGES.get(both) or _IMAGES.get(name, UNKNOWN_IMAGE)
