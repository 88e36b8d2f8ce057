"""Cells, and parts of cells, of many kinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized

from mooring.sandbox.apiserver.objects import Tree, dig

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"
_MOST_LISTED = 3
_OPERATORS = {"In": "in", "NotIn": "notin"}


def labels(items: Mapping[str, str] | None) -> str:
    """Format labels as `a=b,c=d`."""
    if not items:
        return NONE
    return ",".join(f"{key}={items[key]}" for key in sorted(items))


def selector(selected: Tree | None) -> str:
    """Format a label selector like kubectl; empty if it selects everything or nothing."""
    if not selected:
        return ""
    requirements = [(key, f"{key}={value}") for key, value in (selected.get("matchLabels") or {}).items()]
    requirements += [(one["key"], _expression(one)) for one in selected.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted(requirements, key=lambda requirement: requirement[0]))


def _expression(requirement: Tree) -> str:
    key, operator = requirement["key"], requirement.get("operator", "")
    if operator in _OPERATORS:
        values = ",".join(sorted(requirement.get("values") or ()))
        return f"{key} {_OPERATORS[operator]} ({values})"
    return f"!{key}" if operator == "DoesNotExist" else key


def selector_or_none(selected: Tree | None) -> str:
    return selector(selected) or NONE


def listed(texts: list[str], *, none: str, most: int = _MOST_LISTED, separator: str = ",") -> str:
    """Join some texts, and count the others."""
    shown = separator.join(texts[:most])
    if len(texts) > most:
        return f"{shown} + {len(texts) - most} more..."
    return shown or none


def condition(conditions: Iterable[Tree] | None, type: str) -> Tree | None:
    """Return the condition of a type, if there is one."""
    return next((one for one in conditions or () if one.get("type") == type), None)


def holds(conditions: Iterable[Tree] | None, type: str) -> bool:
    """Whether the condition of a type has the status True."""
    state = condition(conditions, type)
    return state is not None and state.get("status") == "True"


def default_class_name(metadata: Tree, *annotations: str) -> str:
    """Return the name of a class, marked if an annotation makes it the default."""
    present, name = metadata.get("annotations") or {}, metadata.get("name", "")
    default = any(present.get(annotation) == "true" for annotation in annotations)
    return f"{name} (default)" if default else name


def text(value: object) -> str:
    return str(value)


def stripped(value: str | None) -> str:
    return (value or "").strip()


def joined(texts: Iterable[str] | None) -> str:
    return ",".join(texts or ())


def first(texts: list[str]) -> str:
    return texts[0]


def count(items: Sized | None) -> int:
    return len(items or ())


def kind_and_name(reference: Tree | None) -> str:
    target = reference or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def namespace_and_name(reference: Tree) -> str:
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}"


def container_names(template: Tree | None) -> str:
    return _of_containers(template, "name")


def container_images(template: Tree | None) -> str:
    return _of_containers(template, "image")


def _of_containers(template: Tree | None, member: str) -> str:
    return joined(container.get(member, "") for container in dig(template, "spec", "containers") or ())
