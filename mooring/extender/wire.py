"""What a scheduler and its HTTP extenders say to each other: the JSON of `k8s.io/kube-scheduler/extender/v1`.

Those Go structs carry no JSON tags, so the keys are capitalised as the Go fields are, and Go reads them in
any case. Pods and nodes stay the bytes that they came as: an extender is shown whole objects, of which the
scheduler itself models only a part, and thousands of nodes are not decoded and encoded again for every pod.
"""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Raw, Struct, field

NULL = Raw(b"null")
MIN_EXTENDER_PRIORITY = 0
MAX_EXTENDER_PRIORITY = 10

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
T = TypeVar("T")


class Message(Struct, rename="pascal", forbid_unknown_fields=True, frozen=True):
    """Unknown fields are not an error to a reader: they send `read` down its slower, case-insensitive way."""


class ExtenderArgs(Message, frozen=True):
    """The request of filter and of prioritize: `nodes` is a NodeList, or null where node names are enough."""

    pod: Raw = NULL
    nodes: Raw = NULL
    node_names: list[str] | None = None


class ExtenderFilterResult(Message, frozen=True):
    nodes: Raw = NULL
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class HostPriority(Message, frozen=True, gc=False):  # thousands at once, of which none can be in a cycle
    host: str = ""
    score: Int64 = 0


HostPriorityList = list[HostPriority]
"""The answer of prioritize."""


class ExtenderBindingArgs(Message, frozen=True):
    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = field(default="", name="PodUID")
    node: str = ""


class ExtenderBindingResult(Message, frozen=True):
    error: str = ""


class Victims(Message, frozen=True):
    """The pods that would have to go from one node, whole."""

    pods: list[Raw] = []
    num_pdb_violations: Int64 = field(default=0, name="NumPDBViolations")


class MetaPod(Message, frozen=True):
    uid: str = field(default="", name="UID")


class MetaVictims(Message, frozen=True):
    """The pods that would have to go from one node, by uid."""

    pods: list[MetaPod] = []
    num_pdb_violations: Int64 = field(default=0, name="NumPDBViolations")


class ExtenderPreemptionArgs(Message, frozen=True):
    """`node_name_to_meta_victims` for an extender with a cache of its own, else `node_name_to_victims`."""

    pod: Raw = NULL
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(Message, frozen=True):
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class NodeList(Struct, frozen=True):
    """The NodeList inside a request or an answer, its nodes as they came."""

    items: list[Raw] = []
    metadata: Raw = Raw(b"{}")


def is_null(raw: Raw) -> bool:
    return raw == NULL  # without a copy: it may be many megabytes


def write(message: Struct | list[Any]) -> bytes:
    return msgspec.json.encode(message)


def read(body: bytes, message: type[T]) -> T:
    """Read one message as Go does: keys in any case, unknown keys skipped, nulls as absent.

    Raises msgspec.DecodeError (malformed JSON) or its subclass ValidationError, which say where and what.
    """
    if body.strip() == b"null":  # what a Go server says for a list or map that it never made
        return message()
    try:
        return msgspec.json.decode(body, type=message)
    except msgspec.ValidationError:
        return msgspec.convert(_spelled(msgspec.json.decode(body), message), message)


def read_nodes(nodes: Raw) -> list[Raw]:
    """The nodes of a request's or an answer's `nodes`; none where it is null."""
    return [] if is_null(nodes) else read(bytes(nodes), NodeList).items


def _spelled(tree: Any, model: Any) -> Any:
    """The tree with the keys of `model` spelled as they are declared, and without nulls and unknown keys."""
    if get_origin(model) in (Union, UnionType):
        model = next(option for option in get_args(model) if option is not type(None))
    if model is Raw:
        return Raw(msgspec.json.encode(tree))
    origin, arguments = get_origin(model), get_args(model)
    if origin is list and isinstance(tree, list):
        return [_spelled(item, arguments[0]) for item in tree]
    if origin is dict and isinstance(tree, dict):
        return {key: _spelled(member, arguments[1]) for key, member in tree.items() if member is not None}
    if isinstance(model, type) and issubclass(model, Struct) and isinstance(tree, dict):
        fields = {one.encode_name.lower(): one for one in msgspec.structs.fields(model)}
        return {
            fields[key.lower()].encode_name: _spelled(member, fields[key.lower()].type)
            for key, member in tree.items()
            if member is not None and key.lower() in fields
        }
    return tree
