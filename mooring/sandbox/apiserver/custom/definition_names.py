"""The names of custom kinds: their syntax, and conflicts between definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from mooring.sandbox.apiserver.errors import Cause, invalid_value, required
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.names import dns_1035_label


def check_label(path: str, text: str) -> Iterator[Cause]:
    problems = dns_1035_label(text)
    if problems:
        yield invalid_value(path, text, ",".join(problems))


def check_names(names: Tree, path: str) -> Iterator[Cause]:
    """Validate the names that a definition requests."""
    for name in ("plural", "singular", "kind", "listKind"):
        if not names.get(name):
            yield required(f"{path}.{name}")
    for name in ("plural", "singular"):
        if names.get(name):
            yield from check_label(f"{path}.{name}", names[name])
    for name in ("kind", "listKind"):
        text = names.get(name) or ""
        problems = dns_1035_label(text.lower()) if text else ()
        if problems:
            why = f"may have mixed case, but should otherwise match: {','.join(problems)}"
            yield invalid_value(f"{path}.{name}", text, why)
    for index, name in enumerate(names.get("shortNames") or ()):
        yield from check_label(f"{path}.shortNames[{index}]", name)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid_value(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
    for index, name in enumerate(names.get("categories") or ()):
        yield from check_label(f"{path}.categories[{index}]", name)


# ---- who may have them ----------------------------------------------------------------------------


class Acceptance(NamedTuple):
    """The names that a definition was granted, and why it was refused others."""

    names: Tree
    reason: str = "NoConflicts"
    message: str = "no conflicts found"

    @property
    def complete(self) -> bool:
        return self.reason == "NoConflicts"


_ORDER: Final = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
_CONFLICTS: Final = {
    "plural": "PluralConflict",
    "singular": "SingularConflict",
    "shortNames": "ShortNamesConflict",
    "kind": "KindConflict",
    "listKind": "ListKindConflict",
}


def accept_names(requested: Tree, accepted: Tree, others: Iterable[Tree]) -> Acceptance:
    """Grant a definition the names it requests, unless `others` of its group have them already."""
    resources, kinds = _taken(others)
    granted, reason, message = dict(accepted), "NoConflicts", "no conflicts found"
    for name, conflict in _CONFLICTS.items():
        new, present = _listed(requested.get(name)), {*_listed(accepted.get(name))}
        taken = kinds if name in ("kind", "listKind") else resources
        refused = [one for one in new if one not in present and one in taken]
        if refused:
            reason, message = conflict, _refusal(refused)
        elif name in requested:
            granted[name] = requested[name]
        else:
            granted.pop(name, None)
    if requested.get("categories"):
        granted["categories"] = requested["categories"]
    else:
        granted.pop("categories", None)
    ordered: Tree = {name: granted[name] for name in _ORDER if name in granted}
    return Acceptance({"plural": "", "kind": "", **ordered}, reason, message)


def _taken(others: Iterable[Tree]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for names in others:
        for name in _CONFLICTS:
            (kinds if name in ("kind", "listKind") else resources).update(_listed(names.get(name)))
    return resources - {""}, kinds - {""}


def _listed(value: object) -> list[str]:
    if isinstance(value, list):
        return value
    return [value] if isinstance(value, str) and value else []


def _refusal(names: list[str]) -> str:
    conflicts = [f'"{name}" is already in use' for name in names]
    return conflicts[0] if len(conflicts) == 1 else f"[{', '.join(conflicts)}]"
