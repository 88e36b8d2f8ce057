"""A schema in a few words, so that those of a real API server can be kept and compared."""

from __future__ import annotations

from typing import Any

Tree = dict[str, Any]


def digest(schema: Tree) -> dict[str, str]:
    """What each member of a definition is: its type, the values it may have, and how it is merged."""
    return {
        name: f"{_type(member)}{_merging(member)}" for name, member in schema.get("properties", {}).items()
    }


def _type(schema: Tree) -> str:
    reference = schema.get("$ref") or next((one["$ref"] for one in schema.get("allOf", ())), "")
    if reference:
        return str(reference.rpartition(".")[2])
    if "items" in schema:
        return f"[]{_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map[]{_type(schema['additionalProperties'])}"
    size = schema.get("format", "")
    values = "(" + "|".join(schema["enum"]) + ")" if "enum" in schema else ""
    return f"{schema.get('type', 'any')}{'/' + size if size else ''}{values}"


def _merging(schema: Tree) -> str:
    """Lists that say nothing are replaced as a whole, as those that say atomic."""
    list_type = schema.get("x-kubernetes-list-type", "")
    words = [] if list_type in ("", "atomic") else [list_type]
    words += schema.get("x-kubernetes-list-map-keys", [])
    strategy, key = schema.get("x-kubernetes-patch-strategy"), schema.get("x-kubernetes-patch-merge-key")
    words += [f"{strategy}:{key or ''}"] if strategy else []
    map_type = schema.get("x-kubernetes-map-type")
    if map_type and not (map_type == "granular" and "additionalProperties" in schema):  # what maps are anyway
        words.append(map_type)
    return " " + ",".join(words) if words else ""
