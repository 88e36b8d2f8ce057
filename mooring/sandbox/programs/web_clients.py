"""curl, wget and nc in containers: they reach what the cluster's network reaches."""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from mooring.sandbox.network.messages import (
    NetworkError,
    OutsideError,
    Query,
    RefusedError,
    Reply,
    TlsError,
    UnknownHostError,
)
from mooring.sandbox.programs.errors import ForeverError, UnknownProgramError
from mooring.sandbox.programs.file import FileError
from mooring.sandbox.programs.http_text import parse_request, render_reply, status_line
from mooring.sandbox.programs.options import Given, Options, parse_options
from mooring.sandbox.programs.resolving import find_addresses, is_address

if TYPE_CHECKING:
    from mooring.sandbox.programs.shell import Shell

_MOST_REDIRECTS: Final = 10
_TIMEOUT: Final = 127.0  # seconds until a connection that is not answered fails, as on Linux
_OUTSIDE: Final = "the network of a sandbox cluster has no connection to the world outside"
_SECONDS: Final = re.compile(r"\d{1,6}(\.\d{1,3})?")
_WRITE_OUT: Final = re.compile(r"%\{(\w+)\}|\\([nt])")
_PORTS: Final = {"http": 80, "https": 443}


class CertificateError(NetworkError):
    """The certificate of the server is of an unknown authority."""


class Fetched(NamedTuple):
    """An answer, with the URL and the address that it comes from."""

    reply: Reply
    url: SplitResult
    address: str


def _fetch(shell: Shell, url: str, query: Query, *, insecure: bool = True, follow: int = 0) -> Fetched:
    """Fetch a URL; `follow` is how many redirections at most. Raises NetworkError."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    except (KeyError, ValueError):
        raise UnknownProgramError(url) from None
    address = resolve(shell, host)
    target = quote(
        (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe="/?&=%:;@!$'()*+,~[]"
    )
    headers = {"host": parts.netloc.rpartition("@")[2], "accept": "*/*", **query.headers}
    query = query._replace(target=target, scheme=parts.scheme, headers=headers)
    reply = send(shell, address, port, query)
    if parts.scheme == "https" and not insecure:
        raise CertificateError
    if not reply.status and not reply.body:
        return Fetched(reply, parts, address)
    location = reply.headers.get("location")
    if follow and location and reply.status in (301, 302, 303, 307, 308):
        if reply.status < 307 and query.method != "HEAD":
            query = query._replace(method="GET", body=b"")
        return _fetch(shell, _join(parts, location), query, insecure=insecure, follow=follow - 1)
    return Fetched(reply, parts, address)


def _join(url: SplitResult, location: str) -> str:
    try:
        return urljoin(url.geturl(), location)
    except ValueError:  # a location such as http://[
        raise UnknownProgramError(location) from None


def resolve(shell: Shell, host: str) -> str:
    """Return the first address of a host. Raises NetworkError."""
    if not host or len(host) > 255:
        raise UnknownHostError(host)
    if is_address(host):
        return host
    return shell.ask(f"resolve {host}", lambda client: find_addresses(client, shell.files, shell.now, host))[
        0
    ]


def send(shell: Shell, address: str, port: int, query: Query, protocol: str = "TCP") -> Reply:
    """Raises NetworkError."""
    what = f"{query.method} {protocol} {address}:{port}{query.target} {query.body!r}"
    reply = shell.ask(what, lambda client: client.ask(address, port, query, protocol))
    shell.work.copy(len(reply.body))
    return reply


def _text(reply: Reply) -> str:
    return reply.body.decode(errors="surrogateescape")


def _number(text: str) -> float:
    if not _SECONDS.fullmatch(text):
        raise UnknownProgramError(text)
    return float(text)


def _wait(shell: Shell, error: NetworkError, seconds: float) -> None:
    """Let time pass until a client gives up, and forget what waits for the world outside."""
    if isinstance(error, OutsideError):
        if shell.is_waiting:  # it would wait forever for what a real cluster can reach
            raise UnknownProgramError("outside")
    elif not isinstance(error, RefusedError | UnknownHostError | TlsError | CertificateError):
        shell.wait(seconds)


def _save(shell: Shell, name: str, path: str, content: str) -> bool:
    """Write what was fetched; return whether that is possible."""
    if path in ("-", "/dev/stdout"):
        shell.print(content)
    elif path != "/dev/null":
        try:
            shell.files.write(path, content, shell.now)
        except FileError as error:
            shell.complain(f"{name}: {path}: {error}\n")
            return False
    return True


# ---- curl

_CURL: Final = Options(
    flags=frozenset("sSgqkfLiIvN46G") | {
        "silent", "show-error", "globoff", "insecure", "fail", "location", "include", "head", "verbose",
        "no-buffer", "ipv4", "get", "compressed", "no-progress-meter"},
    values=frozenset("owmXHdAeuT") | {
        "output", "write-out", "max-time", "request", "header", "data", "data-raw", "data-binary",
        "user-agent", "connect-timeout", "interface", "retry", "retry-delay", "url", "user", "cacert"},
    short={"s": "silent", "S": "show-error", "k": "insecure", "f": "fail", "L": "location", "i": "include",
           "I": "head", "v": "verbose", "G": "get", "o": "output", "w": "write-out", "m": "max-time",
           "X": "request", "H": "header", "d": "data", "A": "user-agent", "u": "user"},
)  # fmt: skip


def curl(shell: Shell, words: list[str]) -> int:
    options, urls = parse_options("curl", words, _CURL)
    urls += options.all("url")
    if len(urls) != 1 or any("@" in one[:1] for one in options.all("data")):
        raise UnknownProgramError("curl")
    query = _curl_query(options)
    timeout = min(
        _number(options.get("connect-timeout", str(_TIMEOUT))), _number(options.get("max-time", "9999"))
    )
    insecure = "insecure" in options or "cacert" in options
    follow = _MOST_REDIRECTS if "location" in options else 0
    try:
        fetched = _fetch(shell, urls[0], query, insecure=insecure, follow=follow)
    except NetworkError as error:
        _wait(shell, error, timeout)
        _write_out(shell, options, Reply(0))
        return _curl_problem(shell, options, error, urls[0], timeout)
    return _curl_result(shell, options, query, fetched)


def _curl_query(options: Given) -> Query:
    headers = {"user-agent": options.get("user-agent", "curl/8.14.1")}
    body = "&".join((*options.all("data"), *options.all("data-raw"), *options.all("data-binary")))
    method = "HEAD" if "head" in options else "POST" if body and "get" not in options else "GET"
    if body and method == "POST":
        headers["content-type"] = "application/x-www-form-urlencoded"
    for text in options.all("header"):
        name, _, value = text.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Query(options.get("request", method), headers=headers, body=body.encode(errors="surrogateescape"))


def _curl_result(shell: Shell, options: Given, query: Query, fetched: Fetched) -> int:
    reply, url, address = fetched
    if "verbose" in options:
        shell.complain(
            f"* Connected to {url.hostname} ({address}) port {url.port or _PORTS[url.scheme]}\n"
            f"> {query.method} {url.path or '/'} HTTP/1.1\n> Host: {url.netloc}\n>\n< {status_line(reply)}\n"
        )
    if not reply.status:
        _write_out(shell, options, reply)
        return _curl_complain(shell, options, 52, "Empty reply from server")
    if "fail" in options and reply.status >= 400:
        _write_out(shell, options, reply)
        return _curl_complain(shell, options, 22, f"The requested URL returned error: {reply.status}")
    head = render_reply(reply, with_body=False) if {"include", "head"} & options.names else ""
    is_saved = _save(shell, "curl", options.get("output", "-"), head + _text(reply))
    _write_out(shell, options, reply)
    return 0 if is_saved else 23


def _curl_problem(shell: Shell, options: Given, error: NetworkError, url: str, timeout: float) -> int:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    host, port = parts.hostname, parts.port or _PORTS[parts.scheme]
    if isinstance(error, OutsideError | UnknownHostError):
        hint = f": {_OUTSIDE}" if isinstance(error, OutsideError) else ""
        return _curl_complain(shell, options, 6, f"Could not resolve host: {host}{hint}")
    if isinstance(error, RefusedError):
        return _curl_complain(
            shell,
            options,
            7,
            f"Failed to connect to {host} port {port} after 0 ms: Could not connect to server",
        )
    if isinstance(error, TlsError):
        return _curl_complain(
            shell, options, 35, "TLS connect error: error:0A00010B:SSL routines::wrong version number"
        )
    if isinstance(error, CertificateError):
        return _curl_complain(
            shell, options, 60, "SSL certificate problem: unable to get local issuer certificate"
        )
    return _curl_complain(shell, options, 28, f"Connection timed out after {timeout * 1000:.0f} milliseconds")


def _curl_complain(shell: Shell, options: Given, code: int, message: str) -> int:
    if "silent" not in options or "show-error" in options:
        shell.complain(f"curl: ({code}) {message}\n")
    return code


def _write_out(shell: Shell, options: Given, reply: Reply) -> None:
    values: Mapping[str, str] = {
        "http_code": f"{reply.status:03}",
        "response_code": f"{reply.status:03}",
        "size_download": str(len(reply.body)),
        "content_type": reply.headers.get("content-type", ""),
    }

    def value(match: re.Match[str]) -> str:
        if match.group(2):
            return {"n": "\n", "t": "\t"}[match.group(2)]
        if match.group(1) not in values:
            raise UnknownProgramError("curl -w")
        return values[match.group(1)]

    shell.print(_WRITE_OUT.sub(value, options.get("write-out", "")))


# ---- wget

_WGET: Final = Options(
    flags=frozenset("qSc4") | {
        "quiet", "spider", "server-response", "no-check-certificate", "no-verbose"},
    values=frozenset("OTtUY") | {"output-document", "timeout", "tries", "user-agent", "header", "post-data"},
    short={"q": "quiet", "O": "output-document", "T": "timeout", "t": "tries", "U": "user-agent",
           "S": "server-response"},
)  # fmt: skip


def wget(shell: Shell, words: list[str]) -> int:
    options, urls = parse_options("wget", words, _WGET)
    if len(urls) != 1:
        raise UnknownProgramError("wget")
    headers = {"user-agent": options.get("user-agent", "Wget")}
    for text in options.all("header"):
        name, _, value = text.partition(":")
        headers[name.strip().lower()] = value.strip()
    body = options.get("post-data", "").encode(errors="surrogateescape")
    query = Query("POST" if body else "GET", headers=headers, body=body)
    timeout = _number(options.get("timeout", str(_TIMEOUT)))
    try:
        fetched = _fetch(shell, urls[0], query, follow=_MOST_REDIRECTS)
    except NetworkError as error:
        _wait(shell, error, timeout)
        shell.complain(f"wget: {_wget_problem(error, urls[0])}\n")
        return 1
    return _wget_result(shell, options, fetched)


def _wget_result(shell: Shell, options: Given, fetched: Fetched) -> int:
    reply, url, address = fetched
    is_quiet = "quiet" in options
    if not is_quiet:
        shell.complain(f"Connecting to {url.netloc} ({address}:{url.port or _PORTS[url.scheme]})\n")
    if "server-response" in options:
        shell.complain("".join(f"  {line}\n" for line in render_reply(reply, with_body=False).splitlines()))
    if not 200 <= reply.status < 300:
        why = f"server returned error: {status_line(reply)}" if reply.status else "error getting response"
        shell.complain(f"wget: {why}\n")
        return 1
    if "spider" in options:
        return 0
    path = options.get("output-document", posixpath.basename(url.path) or "index.html")
    if not is_quiet:
        shell.complain("writing to stdout\n" if path == "-" else f"saving to '{path}'\n'{path}' saved\n")
    return 0 if _save(shell, "wget", path, _text(reply)) else 1


def _wget_problem(error: NetworkError, url: str) -> str:
    host = urlsplit(url if "://" in url else f"http://{url}").hostname
    if isinstance(error, OutsideError):
        return f"bad address '{host}': {_OUTSIDE}"
    if isinstance(error, UnknownHostError):
        return f"bad address '{host}'"
    if isinstance(error, RefusedError):
        return f"can't connect to remote host ({host}): Connection refused"
    return "TLS error" if isinstance(error, TlsError) else "download timed out"


# ---- nc

_NC: Final = Options(
    flags=frozenset("zvtun4NlU"),
    values=frozenset("wpsqi"),
    short={},
)


def nc(shell: Shell, words: list[str]) -> int:
    options, rest = parse_options("nc", words, _NC)
    if options.names == {"l", "U"} and len(rest) == 1:
        shell.files.make(rest[0], shell.now, stat.S_IFSOCK | 0o755)
        raise ForeverError
    if options.names & {"l", "U"}:
        raise UnknownProgramError("nc")
    if len(rest) != 2 or not (rest[1].isascii() and rest[1].isdecimal() and len(rest[1]) <= 5):
        raise UnknownProgramError("nc")
    host, port = rest[0], int(rest[1])
    protocol = "UDP" if "u" in options else "TCP"
    timeout = _number(options.get("w", str(_TIMEOUT)))
    complain: Callable[[str], None] = shell.complain if "v" in options else lambda text: None
    try:
        address = resolve(shell, host)
        if protocol == "TCP":
            shell.ask(f"connect {address}:{port}", lambda client: client.connect(address, port))
    except NetworkError as error:
        _wait(shell, error, timeout)
        complain(f"nc: {_nc_problem(error, host, port)}\n")
        return 1
    complain(f"{host} ({address}:{port}) open\n")
    if "z" in options:
        return 0
    if shell.input is None:
        raise UnknownProgramError("nc")
    code = _converse(shell, address, port, protocol, timeout)
    if not code and protocol == "UDP" and "w" in options:
        shell.wait(timeout)  # more could come
    return code


def _converse(shell: Shell, address: str, port: int, protocol: str, timeout: float) -> int:
    """Send the input and print the answer."""
    text, shell.input = shell.input or "", ""
    query = Query(body=text.encode(errors="surrogateescape"))
    if protocol == "TCP":
        query = parse_request(text) or query
    try:
        reply = send(shell, address, port, query, protocol)
    except NetworkError:
        shell.wait(timeout if protocol == "UDP" else 0.0)
        return 1
    shell.print(
        render_reply(reply) if reply.status and (query.method or reply.status >= 400) else _text(reply)
    )
    return 0


def _nc_problem(error: NetworkError, host: str, port: int) -> str:
    if isinstance(error, OutsideError):
        return f"bad address '{host}': {_OUTSIDE}"
    if isinstance(error, UnknownHostError):
        return f"bad address '{host}'"
    why = "Connection refused" if isinstance(error, RefusedError) else "Connection timed out"
    return f"{host} ({host}:{port}): {why}"
