"""get and list."""

from __future__ import annotations

import base64
import posixpath
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated, NamedTuple

import msgspec

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.context.options import ListOptions
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.errors import (
    ContinueExpiredError,
    bad_request,
    expired,
    not_found,
    show,
    too_large_version,
)
from mooring.sandbox.apiserver.store.record import Record, key_of
from mooring.sandbox.apiserver.store.table import CompactedError, Table
from mooring.sandbox.apiserver.verbs.selectors import matcher

_LARGEST_VERSION = 2**64


class Listing(NamedTuple):
    """One page of a list, and its version."""

    records: list[Record]
    version: int
    continue_token: str = ""
    remaining: int | None = None


def get(api: Api, resource: Resource, namespace: str, name: str) -> Record:
    """Return one object. Raises 404."""
    record = api.table(resource).get(key_of(namespace, name))
    if record is None:
        raise not_found(resource.group, resource.plural, name)
    return record


def parse_version(text: str) -> int:
    """Parse a resource version; 0 for none. Raises 400."""
    if not text:
        return 0
    if not (len(text) <= 20 and text.isascii() and text.isdigit() and int(text) < _LARGEST_VERSION):
        why = f'strconv.ParseUint: parsing "{text[:100]}": invalid syntax'
        raise bad_request(
            f"invalid resource version: resourceVersion: Invalid value: {show(text[:100])}: {why}"
        )
    return int(text)


def reached_version(api: Api, text: str) -> int:
    """Parse a resource version that must exist. Raises 504 for a future one at once: this process is the only
    writer, so waiting is pointless."""
    version = parse_version(text)
    if version > api.store.version:
        raise too_large_version(version, api.store.version)
    return version


def list_objects(api: Api, resource: Resource, namespace: str, options: ListOptions) -> Listing:
    """List objects in the order of their keys: all, or a page of the state at one version."""
    matches = matcher(resource, "", options.label_selector, options.field_selector)
    version, start = _moment(api, options, namespace)
    if options.limit or options.continue_token:
        oldest = api.compaction.advance(api.clock(), api.store.version)
        if options.continue_token and version < oldest:
            raise _too_old(options, start, namespace)
    table = api.table(resource)
    try:
        state = table.at(version) if _changed_since(table, version) else table.records
    except CompactedError:
        raise _too_old(options, start, namespace) from None
    keys = _keys(table, state, namespace)
    first = bisect_left(keys, start) if start else 0
    if not options.limit:
        records: Iterable[Record] = (state[key] for key in islice(keys, first, None))
        return Listing([record for record in records if matches is None or matches(record)], version)
    page: list[Record] = []
    for index in range(first, len(keys)):
        record = state[keys[index]]
        if matches is not None and not matches(record):
            continue
        if len(page) == options.limit:
            remaining = len(keys) - index if matches is None else None
            return Listing(page, version, _token(version, page[-1].key, namespace), remaining)
        page.append(record)
    return Listing(page, version)


def _moment(api: Api, options: ListOptions, namespace: str) -> tuple[int, str]:
    """Return the version to show, and the key to start from."""
    if options.continue_token:
        if options.resource_version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        version, start = _read_token(options.continue_token, namespace)
        return (api.store.version if version < 0 else min(version, api.store.version)), start
    requested = reached_version(api, options.resource_version)
    exact = options.resource_version_match == "Exact" or (
        requested and options.limit > 0 and not options.resource_version_match
    )
    return (requested if exact else api.store.version), ""


def _changed_since(table: Table, version: int) -> bool:
    return version < table.compacted or (bool(table.events) and table.events[-1].version > version)


def _keys(table: Table, state: Mapping[str, Record], namespace: str) -> list[str]:
    if state is table.records:
        return table.keys(namespace)
    prefix = namespace + "/"
    return [key for key in state if not namespace or key.startswith(prefix)]


# ---- continue tokens ------------------------------------------------------------------------------


_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Token(msgspec.Struct):
    v: str
    rv: _Int64
    start: str


def _token(version: int, last: str, namespace: str) -> str:
    """Encode where the next page starts: right after the last key of this one, at the same version."""
    start = last.removeprefix(namespace + "/") if namespace else last
    token = _Token("meta.k8s.io/v1", version, start + "\0")
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def _read_token(text: str, namespace: str) -> tuple[int, str]:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        token = msgspec.json.decode(data, type=_Token)
    except (ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    if token.v != "meta.k8s.io/v1":
        why = f"server does not recognize this encoded version {show(token.v)}"
        raise bad_request(f"invalid continue token: continue key is not valid: {why}")
    if not token.start or token.rv == 0:
        why = "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
        raise bad_request(f"invalid continue token: continue key is not valid: {why}")
    if posixpath.normpath(f"/{token.start}") != f"/{token.start}":
        raise bad_request(f"invalid continue token: continue key is not valid: {token.start}")
    return token.rv, f"{namespace}/{token.start}" if namespace else token.start


def _too_old(options: ListOptions, start: str, namespace: str) -> ApiError:
    if not options.continue_token:
        return expired(f"The resourceVersion for the provided list is too old: {options.resource_version}.")
    return ContinueExpiredError(_token(-1, start.rstrip("\0"), namespace))
