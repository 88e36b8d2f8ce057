"""Words that cells of many kinds are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.printing.columns import Column, of, wide

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"
_MOST_LISTED = 3
_OPERATORS = {"In": "in", "NotIn": "notin"}


def labels(found: Mapping[str, str] | None) -> str:
    """Labels as `a=b,c=d`."""
    if not found:
        return NONE
    return ",".join(f"{key}={found[key]}" for key in sorted(found))


def selector(found: Tree | None) -> str:
    """A label selector as one would write it for kubectl; empty where it selects everything or nothing."""
    if not found:
        return ""
    requirements = [(key, f"{key}={value}") for key, value in (found.get("matchLabels") or {}).items()]
    requirements += [(one["key"], _expression(one)) for one in found.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted(requirements, key=lambda requirement: requirement[0]))


def _expression(requirement: Tree) -> str:
    key, operator = requirement["key"], requirement.get("operator", "")
    if operator in _OPERATORS:
        values = ",".join(sorted(requirement.get("values") or ()))
        return f"{key} {_OPERATORS[operator]} ({values})"
    return f"!{key}" if operator == "DoesNotExist" else key


def selector_or_none(found: Tree | None) -> str:
    return selector(found) or NONE


def listed(found: list[str], *, none: str, most: int = _MOST_LISTED, separator: str = ",") -> str:
    """Some texts, and how many more there are."""
    shown = separator.join(found[:most])
    if len(found) > most:
        return f"{shown} + {len(found) - most} more..."
    return shown or none


def condition(conditions: Iterable[Tree] | None, type: str) -> Tree | None:
    """The condition of a type, if an object has it."""
    return next((one for one in conditions or () if one.get("type") == type), None)


def holds(conditions: Iterable[Tree] | None, type: str) -> bool:
    """Whether there is a condition of a type, and its status is True."""
    found = condition(conditions, type)
    return found is not None and found.get("status") == "True"


def marked(obj: Tree, *annotations: str) -> bool:
    """Whether an annotation says "true"."""
    found = obj["metadata"].get("annotations") or {}
    return any(found.get(annotation) == "true" for annotation in annotations)


def template_columns(*template: str) -> tuple[Column, Column]:
    """The names and images of a pod template's containers."""

    def joined(member: str, obj: Tree) -> str:
        found: list[Any] = dig(obj, *template, "spec", "containers") or []
        return ",".join(container.get(member, "") for container in found)

    return (
        wide("Containers", of(lambda obj: joined("name", obj)), "Names of each container in the template."),
        wide(
            "Images",
            of(lambda obj: joined("image", obj)),
            "Images referenced by each container in the template.",
        ),
    )
