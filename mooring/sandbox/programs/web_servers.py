"""Web servers: what well-known images answer by themselves, and files from volumes."""

from __future__ import annotations

import mimetypes
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from mooring.sandbox.network.messages import UDP, Query, Reply
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import FileError
from mooring.sandbox.programs.http_text import header_name
from mooring.sandbox.programs.listeners import UNKNOWN, Listener, Process, hang_up, html, text

_NGINX: Final = """<!DOCTYPE html>
<html>
<head>
<title>Welcome to nginx!</title>
</head>
<body>
<h1>Welcome to nginx!</h1>
<p>If you see this page, nginx is successfully installed and working. No container runs in a sandbox cluster:
this page is emulated.</p>
</body>
</html>
"""
_HTTPD: Final = "<html><body><h1>It works!</h1></body></html>\n"
_PLACEHOLDER: Final = "The content of this file is not known: no container runs in a sandbox cluster.\n"
_PAGES: Final = frozenset(("GET", "HEAD"))


class FileServer(msgspec.Struct, frozen=True):
    """Serves the files of a folder, and without an index of its own the page that the image has."""

    folder: str
    page: str = ""
    lists: bool = False
    """Whether it lists folders without an index."""

    def __call__(self, query: Query, process: Process) -> Reply:
        if query.method not in _PAGES:
            return text("405 Method Not Allowed\n", 405)
        path = posixpath.normpath("/" + unquote(query.path, errors="surrogateescape")).lstrip("/")
        content = self._read(path, process)
        if content is None and path in ("", "index.html") and self.page:
            return html(self.page)
        if content is None:
            names = self._list(path, process) if self.lists else None
            return text("404 page not found\n", 404) if names is None else _listing(names)
        kind = mimetypes.guess_type(path or "index.html")[0] or "text/plain"
        return Reply(200, content.encode(errors="surrogateescape"), {"content-type": kind})

    def _read(self, path: str, process: Process) -> str | None:
        """Return the content of a file, of a folder that of its index; None if there is none."""
        full = posixpath.join(self.folder, path)
        for each in (full, posixpath.join(full, "index.html")):
            try:
                return process.files.read(each, process.now)
            except FileError:
                continue
            except UnknownProgramError:
                if self._is_there(each, process):
                    return _PLACEHOLDER
        return None

    def _is_there(self, path: str, process: Process) -> bool:
        """Whether there is a file whose content is not known."""
        try:
            return process.files.find(path, process.now) is not None
        except UnknownProgramError:
            return False

    def _list(self, path: str, process: Process) -> list[str] | None:
        """Return the names in a folder, of the image's only those that are known; None if there is none."""
        full = posixpath.join(self.folder, path)
        try:
            return process.files.list(full, process.now)
        except FileError:
            return None
        except UnknownProgramError:
            return None if path else []


def _listing(names: Iterable[str]) -> Reply:
    links = "".join(f'<a href="{quote(name)}">{escape(name)}</a>\n' for name in names)
    return html(f"<pre>\n{links}</pre>\n")


class Fixed(msgspec.Struct, frozen=True):
    """Answers every request with `body`."""

    body: str

    def __call__(self, query: Query, process: Process) -> Reply:
        return text(self.body)


class Json(msgspec.Struct, frozen=True):
    """A text with the method of the request, as `agnhost porter --json-response` answers."""

    body: str

    def __call__(self, query: Query, process: Process) -> Reply:
        body = msgspec.json.encode({"Method": query.method, "Body": self.body})
        return Reply(200, body, {"content-type": "application/json"})


def host_name(query: Query, process: Process) -> Reply:
    """Answer with the name of the host."""
    return text(process.name)


def echo(query: Query, process: Process) -> Reply:
    """Answer with the request itself."""
    headers = "".join(f"{header_name(name)}: {value}\n" for name, value in query.headers.items())
    body = query.body.decode(errors="replace")
    return text(f"Hostname: {process.name}\n\n{query.method} {query.target} HTTP/1.1\n{headers}\n{body}")


def _hello(query: Query, process: Process) -> Reply:
    return text(f"Hello, world!\nVersion: 1.0.0\nHostname: {process.name}\n")


def _whoami(query: Query, process: Process) -> Reply:
    return text(
        f"Hostname: {process.name}\nIP: {process.address}\nRemoteAddr: {query.peer}\n"
        f"{query.method} {query.target} HTTP/1.1\n"
    )


# ---- by image


def listeners_of_image(name: str, mounts: Iterable[str], words: Sequence[str] = ()) -> tuple[Listener, ...]:
    """Return what an image listens at by itself, with the paths of its mounts and its arguments; a server
    with a configuration of its own may differ."""
    if any(path.startswith(f"/etc/{name}") for path in mounts):
        return UNKNOWN
    if name == "http-echo":
        return _http_echo(words)
    return _IMAGES.get(name, UNKNOWN)


def _http_echo(words: Sequence[str]) -> tuple[Listener, ...]:
    line = " ".join(words)
    body = re.search(r"-text[= ](.*?)(?: -listen.*)?$", line, re.DOTALL)
    port = re.search(r"-listen[= ]\S*?:(\d{1,5})\b", line)
    return (
        Listener(
            int(port.group(1)) if port else 5678, Fixed(f"{body.group(1) if body else 'hello-world'}\n")
        ),
    )


def _web(port: int, answer: Callable[[Query, Process], Reply]) -> tuple[Listener, ...]:
    return (Listener(port, answer),)


def _other(*ports: int) -> tuple[Listener, ...]:
    return tuple(Listener(port, hang_up, is_raw=True) for port in ports)


_IMAGES: Final[dict[str, tuple[Listener, ...]]] = {
    "pause": (),
    "nginx": _web(80, FileServer("/usr/share/nginx/html", _NGINX)),
    "nginx-unprivileged": _web(8080, FileServer("/usr/share/nginx/html", _NGINX)),
    "httpd": _web(80, FileServer("/usr/local/apache2/htdocs", _HTTPD)),
    "caddy": _web(80, FileServer("/usr/share/caddy")),
    "echoserver": _web(8080, echo),
    "echo-server": _web(8080, echo),
    "hello-app": _web(8080, _hello),
    "whoami": _web(80, _whoami),
    "hpa-example": _web(80, Fixed("OK!")),
    "e2e-test-images/nautilus": _web(80, FileServer("/", lists=True)),
    "e2e-test-images/kitten": _web(80, FileServer("/", lists=True)),
    "redis": _other(6379), "valkey": _other(6379), "memcached": _other(11211), "postgres": _other(5432),
    "mysql": _other(3306), "mariadb": _other(3306), "mongo": _other(27017), "etcd": _other(2379, 2380),
}  # fmt: skip
IMAGES: Final = frozenset((*_IMAGES, "http-echo"))
"""Images that serve until they are stopped, see `images.short_names`."""


# ---- by command


def serve_host_name(flags: dict[str, str], port: int) -> tuple[Listener, ...]:
    """`agnhost serve-hostname`"""
    listeners = []
    if flags.get("http", "true") != "false":
        listeners.append(Listener(port, host_name))
    if flags.get("tcp") == "true":
        listeners = [Listener(port, host_name, is_raw=True)]
    if flags.get("udp") == "true":
        listeners.append(Listener(port, host_name, UDP))
    return tuple(listeners)


def serve_variables(variables: dict[str, str | None], *, as_json: bool) -> tuple[Listener, ...]:
    """`agnhost porter`: variables name the ports and what they answer."""
    listeners = []
    for name, value in variables.items():
        match = re.fullmatch(r"SERVE_(TCP_|UDP_|TLS_)?PORT_(\d{1,5})", name)
        if match is None:
            continue
        kind, port = match.group(1) or "TCP_", int(match.group(2))
        answer = Json(value or "") if as_json and kind != "UDP_" else Fixed(value or "")
        listeners.append(Listener(port, answer, UDP if kind == "UDP_" else "TCP", is_secure=kind == "TLS_"))
    return tuple(listeners)
