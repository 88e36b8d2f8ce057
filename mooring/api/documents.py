"""Read manifests, YAML or JSON, as plain trees."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
import yaml

MOST_VALUES = 500_000
"""Values of one document once its aliases are expanded."""
MOST_LEVELS = 200
"""Levels of nesting. Kubernetes' own objects have about twenty; a walk may take two frames for each."""

UNCONSTRUCTED = (ValueError, LookupError, AttributeError, TypeError)
"""What PyYAML raises, apart from its own errors, for a text that its tag does not allow, as in `!!int ""`."""

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"
_START = re.compile(r"^---(?=\s|$)", re.MULTILINE)

_SET_BY_SERVER = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "selfLink",
    }
)
_SPACE = re.compile(r"\s*")
_INDENT = re.compile(r"^[ \t?:-]+", re.MULTILINE)


class _Loader(_Base):  # type: ignore[misc]
    """YAML as Kubernetes' tools read it: no dates, and no numbers in base sixty such as 12:30."""

    merged = 0
    """Members that `<<` has copied."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Copy the members of merged mappings; raise for mappings that multiply by it."""
        for key, value in node.value:
            if key.tag != _MERGE:
                continue
            for mapping in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if isinstance(mapping, yaml.MappingNode):
                    self.flatten_mapping(mapping)
                    self.merged += len(mapping.value)
            if self.merged > MOST_VALUES:
                raise ValueError("excessive aliasing")
        super().flatten_mapping(node)


_UNWANTED = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag not in _UNWANTED]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"[-+]?(?:0b[01_]+|0[0-7_]*|[1-9][0-9_]*|0x[0-9a-fA-F_]+)\Z"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?\Z"),
    list("-+0123456789."),
)


class DocumentError(ValueError):
    """A document that is neither YAML nor JSON, or too large or too deep to use."""


def read_documents(text: str) -> Iterator[Any | DocumentError]:
    """Yield every non-empty document of the text, or the error of one that cannot be parsed.

    Documents are split at their `---` lines before they are parsed, so that an invalid one does not affect
    those after it.
    """
    if text.lstrip()[:1] in ("{", "["):
        try:
            trees = _json(text)
            too_deep = trees is not None and _is_too_deep(trees)
        except RecursionError:
            too_deep = True
        if too_deep:
            yield DocumentError("document at line 1: nested too deeply")
            return
        if trees is not None:
            yield from trees
            return
    start, line = 0, 1
    for end in [*(mark.start() for mark in _START.finditer(text) if mark.start()), len(text)]:
        chunk = text[start:end]
        yield from _yaml(chunk, line)
        line += chunk.count("\n")
        start = end


def read_objects(text: str) -> Iterator[Any | DocumentError]:
    """The documents of a manifest, with the items of a List, PodList and the like in its place.

    The items of a PodList may omit their kind, as in the answers of an API server.
    """
    for document in read_documents(text):
        yield from _items(document)


def creatable_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata without the fields that an API server sets."""
    return {name: value for name, value in metadata.items() if name not in _SET_BY_SERVER}


def _items(tree: Any) -> Iterator[Any]:
    kind = tree.get("kind") if isinstance(tree, dict) else None
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(tree.get("items"), list):
        yield tree
        return
    own = {"apiVersion": tree.get("apiVersion"), "kind": kind.removesuffix("List")} if kind != "List" else {}
    for item in tree["items"]:
        yield from _items({**own, **item} if isinstance(item, dict) else item)


def _json(text: str) -> list[Any] | None:
    """The JSON values of the text, one after another; None where it is not JSON."""
    try:
        return [msgspec.json.decode(text)]
    except msgspec.DecodeError:
        pass
    decoder, trees, at = json.JSONDecoder(), [], _skip_space(text, 0)
    try:
        while at < len(text):
            tree, at = decoder.raw_decode(text, at)
            trees.append(tree)
            at = _skip_space(text, at)
    except ValueError:
        return None
    return trees


def _is_too_deep(trees: list[Any]) -> bool:
    """Whether one of the trees has more than MOST_LEVELS levels."""
    levels = -1
    collections: list[Any] = [trees]
    while collections:
        levels += 1
        members = [one.values() if isinstance(one, dict) else one for one in collections]
        collections = [each for one in members for each in one if isinstance(each, (dict, list))]
    return levels > MOST_LEVELS


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _yaml(chunk: str, line: int) -> Iterator[Any | DocumentError]:
    try:
        _check_levels(chunk)
        for tree in yaml.load_all(chunk, Loader=_Loader):
            if "*" in chunk and "&" in chunk:
                _check_aliases(tree)
            if tree is not None:
                yield tree
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {line + mark.line}, column {mark.column + 1}" if mark else f"document at line {line}"
        yield DocumentError(f"{where}: not YAML: {getattr(error, 'problem', None) or error}")
    except (*UNCONSTRUCTED, RecursionError) as error:
        yield DocumentError(f"document at line {line}: not YAML: {error}")


def _check_levels(chunk: str) -> None:
    """Raise for nesting that would exhaust the stack.

    A level costs a bracket or a character before the content of a line. Where there are few of these, the
    text need not be parsed twice.
    """
    brackets = chunk.count("[") + chunk.count("{")
    indent = max((match.end() - match.start() for match in _INDENT.finditer(chunk)), default=0)
    if brackets + indent <= MOST_LEVELS:
        return
    levels = 0
    for event in yaml.parse(chunk, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            levels += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            levels -= 1
        if levels > MOST_LEVELS:
            mark = cast("yaml.Mark | None", event.start_mark)
            raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=mark)


def _check_aliases(tree: Any) -> None:
    """Raise for aliases that lead back to themselves or multiply: each use of one is another copy."""
    left, values = MOST_VALUES, [(tree, 0)]
    while values:
        value, level = values.pop()
        left -= 1
        if left < 0 or level > MOST_LEVELS:
            raise ValueError("excessive aliasing")
        if isinstance(value, dict):
            values += [(each, level + 1) for each in value.values()]
        elif isinstance(value, list):
            values += [(each, level + 1) for each in value]
