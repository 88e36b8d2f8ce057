"""Requests and answers of HTTP/1.1 as text, for clients that write and read it themselves."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from mooring.sandbox.network.messages import Query, Reply

_REQUEST: Final = re.compile(r"([A-Z]+) (\S+)(?: HTTP/1\.[01])?\r?\n", re.ASCII)


def parse_request(text: str) -> Query | None:
    """Return the request at the beginning of a text."""
    match = _REQUEST.match(text)
    if match is None:
        return None
    head, _, body = text[match.end() :].replace("\r\n", "\n").partition("\n\n")
    headers = {}
    for line in head.splitlines():
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Query(match.group(1), match.group(2), headers, body.encode(errors="surrogateescape"))


def status_line(reply: Reply) -> str:
    return f"HTTP/1.1 {reply.status} {_phrase(reply.status)}".rstrip()


def render_reply(reply: Reply, *, with_body: bool = True) -> str:
    headers = {**reply.headers, "content-length": str(len(reply.body))}
    lines = [status_line(reply), *(f"{header_name(name)}: {value}" for name, value in headers.items())]
    body = reply.body.decode(errors="surrogateescape") if with_body else ""
    return "\r\n".join([*lines, "", body])


def header_name(name: str) -> str:
    """Return the name of a header as Go writes it."""
    return "-".join(part.capitalize() for part in name.split("-"))


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
