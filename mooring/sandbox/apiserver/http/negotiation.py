"""Choose the representation that a client accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.sandbox.apiserver.errors import not_acceptable
from mooring.sandbox.apiserver.http.representation import Metadata, Plain, Representation
from mooring.sandbox.apiserver.http.tables import Tables, include_object

Params = Mapping[str, list[str]]

PLAIN = Plain()

_JSON = ("application/json", "application/*", "*/*")
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_OFFERED = ("application/json",)
_META = ("v1", "v1beta1")


def representation(accept: str, params: Params, clock: Callable[[], float]) -> Representation:
    """Return the first alternative of an Accept header that is served. Raises 406, and 400 for invalid
    `params` of it. The clock is for the ages of objects.

    Clients that prefer protobuf get JSON: they read what the answer says it is."""
    if not accept or "as=" not in accept:
        if accept and not any(media in accept for media in (*_JSON, _PROTOBUF)):
            raise not_acceptable(_OFFERED)
        return PLAIN
    prefers_protobuf = False
    for alternative in accept.split(","):
        media, *parameters = (part.strip() for part in alternative.split(";"))
        if media not in _JSON:
            prefers_protobuf |= media == _PROTOBUF
            continue
        options = dict(part.split("=", 1) for part in parameters if "=" in part)
        if "as" not in options:
            return PLAIN
        if options.get("g") == "meta.k8s.io" and options.get("v") in _META:
            api_version = f"meta.k8s.io/{options['v']}"
            if options["as"] == "Table":
                return Tables(api_version, include_object(params), clock)
            if options["as"] in ("PartialObjectMetadata", "PartialObjectMetadataList"):
                return Metadata(api_version, kinds=not prefers_protobuf)
    raise not_acceptable(_OFFERED)


def accepts_json(accept: str) -> bool:
    """Return whether plain JSON is accepted."""
    return not accept or any(media in accept for media in _JSON)


def wants_aggregated_discovery(accept: str) -> bool:
    """Return whether the first alternative that is served is the aggregated form."""
    for alternative in accept.split(","):
        media, *parameters = (part.strip() for part in alternative.split(";"))
        if media not in _JSON:
            continue
        options = dict(part.split("=", 1) for part in parameters if "=" in part)
        if "as" not in options:
            return False
        if (options.get("as"), options.get("g"), options.get("v")) == (
            "APIGroupDiscoveryList",
            "apidiscovery.k8s.io",
            "v2",
        ):
            return True
    return False
