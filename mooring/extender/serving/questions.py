"""Requests of filter and prioritize: the pod, and the nodes that are left to choose from."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from mooring.api.errors import ObjectError
from mooring.api.objects import Node, Pod
from mooring.client.decoding import reader_of
from mooring.client.refusals import UNREADABLE
from mooring.extender.wire import NULL, ExtenderArgs, NodeList, T, is_null, read, read_nodes

_node = reader_of(Node).object
_pod = reader_of(Pod).object


class BadRequestError(Exception):
    """A body that is no such request; the message says where and what."""


class NodeSet(msgspec.Struct, frozen=True):
    """Candidate nodes of a request. If they were sent as objects, there is a NodeList in addition to the
    names, with its items raw and decoded."""

    names: list[str]
    node_list: Raw = NULL
    items: list[Raw] | None = None
    nodes: list[Node] | None = None


class Question:
    """A request. If its nodes equal those of a recent request, the lists are the same objects, so that
    results can be cached by identity. Do not modify them."""

    __slots__ = ("_body", "items", "names", "node_list", "nodes", "pod")

    def __init__(self, body: bytes, pod: Pod, node_set: NodeSet) -> None:
        self._body = body
        self.pod = pod
        self.names = node_set.names
        self.node_list = node_set.node_list
        self.items = node_set.items
        self.nodes = node_set.nodes

    @property
    def request(self) -> dict[str, Any]:
        """The whole of it, with all that the structs leave out."""
        return tree_of(self._body)


class Questions:
    """Reads requests. A scheduler sends the same nodes again for every pod, all to filter and those that
    passed to prioritize: what the last two requests were about is not read again. Where a few nodes have
    changed, the others still are not decoded again, and are the same objects."""

    def __init__(self) -> None:
        # By what follows the pod; the latest first.
        self._recent: tuple[tuple[bytes, NodeSet], ...] = ()
        self._last: dict[bytes, Node] = {}
        self._last_but_one: dict[bytes, Node] = {}

    def read(self, body: bytes) -> Question:
        """Raises BadRequestError."""
        for recent in self._recent:
            tail, node_set = recent
            if body.endswith(tail):
                args = message(body[: -len(tail)] + b"}", ExtenderArgs)
                if args == ExtenderArgs(args.pod):  # all else is in the tail
                    self._recent = (recent, *[each for each in self._recent if each is not recent])
                    return Question(body, pod_of(args.pod), node_set)
        args = message(body, ExtenderArgs)
        pod = pod_of(args.pod)
        node_set = self._node_set(args)
        head = b'{"Pod":' + bytes(args.pod)
        if body.startswith(head):  # as Go writes them
            self._recent = ((body[len(head) :], node_set), *self._recent[:1])
        return Question(body, pod, node_set)

    def _node_set(self, args: ExtenderArgs) -> NodeSet:
        if is_null(args.nodes):
            return NodeSet(args.node_names or [])
        try:
            items = _items(args.nodes)
            nodes = self._decoded(items)
        except (*UNREADABLE, ObjectError) as error:
            raise BadRequestError(f"Nodes: {error}") from None
        return NodeSet([node.name for node in nodes], args.nodes, items, nodes)

    def _decoded(self, items: list[Raw]) -> list[Node]:
        last, last_but_one = self._last, self._last_but_one
        seen: dict[bytes, Node] = {}
        for item in items:
            data = bytes(item)
            seen[data] = last.get(data) or last_but_one.get(data) or _node(data)
        self._last, self._last_but_one = seen, last
        return list(seen.values()) if len(seen) == len(items) else [seen[bytes(item)] for item in items]


def _items(nodes: Raw) -> list[Raw]:
    """The nodes of a NodeList, which mostly is one as Go writes it."""
    try:
        node_list: NodeList = msgspec.json.decode(nodes, type=NodeList)
    except msgspec.ValidationError:
        return read_nodes(nodes)
    return node_list.items


def message(body: bytes, kind: type[T]) -> T:
    """A message of the wire. Raises BadRequestError."""
    try:
        return read(body, kind)
    except UNREADABLE as error:
        raise BadRequestError(f"{kind.__name__}: {error}") from None


def pod_of(raw: Raw) -> Pod:
    """Raises BadRequestError."""
    if is_null(raw):
        raise BadRequestError("Pod: required")
    try:
        pod: Pod = _pod(raw)
    except (*UNREADABLE, ObjectError) as error:
        raise BadRequestError(f"Pod: {error}") from None
    return pod


def tree_of(body: bytes) -> dict[str, Any]:
    """A request that was read before, as plain JSON."""
    tree: dict[str, Any] = msgspec.json.decode(body)
    return tree
