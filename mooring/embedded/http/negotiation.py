"""Which representation a client accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.embedded.errors import not_acceptable
from mooring.embedded.http.representation import Metadata, Plain, Representation

Params = Mapping[str, list[str]]

PLAIN = Plain()
_METADATA = Metadata()

TRANSFORMS: dict[str, Callable[[Params], Representation]] = {
    "PartialObjectMetadata": lambda params: _METADATA,
    "PartialObjectMetadataList": lambda params: _METADATA,
}
"""By what stands in `as=` of an Accept header; what is not here is passed over for the next alternative."""

_JSON = ("application/json", "application/*", "*/*")
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_OFFERED = ("application/json",)


def representation(accept: str, params: Params) -> Representation:
    """The first alternative of an Accept header that can be served. Raises 406.

    Clients that prefer protobuf get JSON: they read what the answer says it is.
    """
    if not accept or "as=" not in accept:
        if accept and not any(media in accept for media in (*_JSON, _PROTOBUF)):
            raise not_acceptable(_OFFERED)
        return PLAIN
    for alternative in accept.split(","):
        media, *parameters = (part.strip() for part in alternative.split(";"))
        if media not in _JSON:
            continue
        wanted = dict(part.split("=", 1) for part in parameters if "=" in part)
        if "as" not in wanted:
            return PLAIN
        transform = TRANSFORMS.get(wanted["as"])
        if transform is not None and wanted.get("g", "") == "meta.k8s.io" and wanted.get("v", "") == "v1":
            return transform(params)
    raise not_acceptable(_OFFERED)


def wants_aggregated_discovery(accept: str) -> bool:
    """Whether the first alternative that can be served is the aggregated form."""
    for alternative in accept.split(","):
        media, *parameters = (part.strip() for part in alternative.split(";"))
        if media not in _JSON:
            continue
        wanted = dict(part.split("=", 1) for part in parameters if "=" in part)
        if "as" not in wanted:
            return False
        if (wanted.get("as"), wanted.get("g"), wanted.get("v")) == (
            "APIGroupDiscoveryList",
            "apidiscovery.k8s.io",
            "v2",
        ):
            return True
    return False
