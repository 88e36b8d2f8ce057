"""YAML and JSON text as plain objects that remember where in the text each value stood."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import yaml
from yaml.constructor import SafeConstructor

from mooring.api.documents import UNCONSTRUCTED
from mooring.config.findings import Path, Place, Places, Report, format_path

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MAX_NODES = 100_000  # aliases can make a small file expand without bound
MAX_DEPTH = 100
_EXPONENT = re.compile(r"-?\d+(\.\d+)?[eE][+-]?\d+")


class LocatedMap(dict[str, Any]):
    """A mapping that knows the place of each of its keys."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.places: dict[str, Place] = {}

    def put(self, key: str, value: object, place: Place) -> None:
        self[key] = value
        self.places[key] = place

    def take(self, key: str) -> tuple[Any, Place]:
        """Remove `key`; give its value (None when absent) and its place."""
        return self.pop(key, None), self.places.pop(key, self.place)

    def child(self, key: str, place: Place) -> LocatedMap:
        """The mapping under `key`, made at `place` when there is none."""
        if self.get(key) is None:
            self.put(key, LocatedMap(place), place)
        child = self[key]
        return child if isinstance(child, LocatedMap) else LocatedMap(place)

    def items_of(self, key: str, place: Place) -> LocatedList:
        """The list under `key`, made at `place` when there is none."""
        if self.get(key) is None:
            self.put(key, LocatedList(), place)
        items = self[key]
        return items if isinstance(items, LocatedList) else LocatedList()


class LocatedList(list[Any]):
    """A list that knows the place of each of its items."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[Place] = []

    def add(self, value: object, place: Place) -> None:
        self.append(value)
        self.places.append(place)

    def remove_at(self, index: int) -> None:
        del self[index], self.places[index]

    def maps(self) -> Iterator[tuple[LocatedMap, Place]]:
        """The items that are mappings; others are reported when the tree is decoded."""
        pairs = zip(list(self), list(self.places), strict=True)
        return ((item, place) for item, place in pairs if isinstance(item, LocatedMap))


def locate(value: object, place: Place | None = None) -> Any:
    """An already parsed object as a located tree without lines."""
    here = place or Place()
    if isinstance(value, dict):
        mapping = LocatedMap(here)
        for key, item in value.items():
            below = Place((*here.path, str(key)))
            mapping.put(str(key), locate(item, below), below)
        return mapping
    if isinstance(value, (list, tuple)):
        items = LocatedList()
        for index, item in enumerate(value):
            below = Place((*here.path, index))
            items.add(locate(item, below), below)
        return items
    return value


def places_of(tree: object, file: str) -> Places:
    """The place of every value of a located tree, by its path in the tree as it is now."""
    places: dict[Path, Place] = {}

    def visit(value: object, path: Path) -> None:
        children: list[tuple[str | int, Place]] = []
        if isinstance(value, LocatedMap):
            children = list(value.places.items())
        elif isinstance(value, LocatedList):
            children = list(enumerate(value.places))
        for key, place in children:
            places[*path, key] = place
            visit(value[key], (*path, key))  # type: ignore[index]

    visit(tree, ())
    return Places(file, places)


def plain(value: object) -> Any:
    """The tree without its places: ordinary dicts and lists."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def parse(text: str, report: Report) -> list[Any]:
    """The non-empty documents in `text`. Syntax errors and duplicate keys are reported."""
    if text.lstrip().startswith("{"):
        text = text.replace("\t", " ")  # legal between JSON tokens, not in YAML; JSON strings hold none
    try:
        _check_depth(text)
        nodes = [node for node in yaml.compose_all(text, Loader=Loader) if node is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        report.add_at(Place(line=mark.line + 1 if mark else None), f"not valid YAML: {reason}")
        return []
    except yaml.YAMLError as error:
        report.add_at(Place(), f"not valid YAML: {error}")
        return []
    return [_Builder(report).build(node, ()) for node in nodes]


def _check_depth(text: str) -> None:
    """Refuse nesting that would exhaust the stack, which libyaml's composer does not survive."""
    depth = 0
    for event in yaml.parse(text, Loader=Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem="nested too deeply", problem_mark=cast("yaml.Mark | None", event.start_mark)
            )


class _Builder:
    """Turns one document's nodes into a located tree."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.left = MAX_NODES
        self.scalars = SafeConstructor()

    def build(self, node: yaml.Node, path: Path) -> Any:
        self.left -= 1
        place = Place(path, node.start_mark.line + 1)
        if self.left < 0 or len(path) > MAX_DEPTH:
            if self.left >= -1:
                self.report.add_at(place, "too large: aliases or nesting expand without bound")
            self.left = min(self.left, -1)
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            items = LocatedList()
            for index, item in enumerate(node.value):
                below = (*path, index)
                items.add(self.build(item, below), Place(below, item.start_mark.line + 1))
            return items
        return self._scalar(node) if isinstance(node, yaml.ScalarNode) else None

    def _mapping(self, node: yaml.MappingNode, place: Place) -> LocatedMap:
        mapping = LocatedMap(place)
        merged: list[yaml.MappingNode] = []
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
                continue
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                message = "expected a field name, found a list or mapping as a key"
                self.report.add_at(Place(place.path, line), message)
                continue
            below = Place((*place.path, key.value), line)
            if key.value in mapping:
                first = mapping.places[key.value].line
                hint = f"it was given before on line {first}"
                self.report.add_at(below, f'duplicate field "{key.value}" in {_name(place)}', hint)
            else:
                mapping.put(key.value, self.build(value, below.path), below)
        for source in merged:
            self._merge(mapping, source, place)
        return mapping

    def _merge(self, mapping: LocatedMap, source: yaml.Node, place: Place) -> None:
        """A merge key (`<<`): what the mapping does not say itself is taken from `source`."""
        source_map = self.build(source, place.path)
        if not isinstance(source_map, LocatedMap):
            self.report.add_at(place, "expected a mapping to merge with <<")
            return
        for key, value in source_map.items():
            if key not in mapping:
                mapping.put(key, value, source_map.places[key])

    def _scalar(self, node: yaml.ScalarNode) -> object:
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if kind == "null":
            return None
        try:
            if kind == "bool":
                return self.scalars.construct_yaml_bool(node)
            if kind == "int" and ":" not in node.value:
                return self.scalars.construct_yaml_int(node)
            if kind == "float" and ":" not in node.value:
                return self.scalars.construct_yaml_float(node)
        except UNCONSTRUCTED:
            self.report.add_at(Place(line=node.start_mark.line + 1), f'"{node.value[:100]}" is not a {kind}')
            return None
        if kind == "str" and not node.style and _EXPONENT.fullmatch(node.value):
            return float(node.value)  # a number in JSON, a string in YAML 1.1
        return node.value


def _name(place: Place) -> str:
    return format_path(place.path) or "the document"
