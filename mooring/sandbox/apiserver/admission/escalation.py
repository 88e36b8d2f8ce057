"""Reject grants of rights that the user does not hold, unless it may "escalate" or "bind" the role."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from mooring.sandbox.apiserver.authorization.rbac import GROUP, read_binding, read_role
from mooring.sandbox.apiserver.authorization.rules import EVERYTHING, Attributes, Rule
from mooring.sandbox.apiserver.authorization.users import MASTERS
from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import forbidden, not_found
from mooring.sandbox.apiserver.objects import Tree, encode_json

_ROLES: Final = (f"roles.{GROUP}", f"clusterroles.{GROUP}")
_OF_ITS_END: Final = ("finalizers", "ownerReferences", "managedFields", "resourceVersion")
_MOST_REPORTED: Final = 2000  # verbs, of all rules
_MOST_PIECES: Final = 1000
_BINDINGS: Final = (f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}")


class Escalation(AdmissionPlugin):
    operations = frozenset({"CREATE", "UPDATE"})
    storages = frozenset((*_ROLES, *_BINDINGS))

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if MASTERS in write.user.groups or (old is not None and _same_but_for_its_end(obj, old)):
            return
        if write.resource.storage in _ROLES:
            _check_role(write, obj, old)
        else:
            _check_binding(write, obj)


def _check_role(write: Write, obj: Tree, old: Tree | None) -> None:
    attributes = Attributes("escalate", GROUP, write.resource.plural, write.namespace, write.name)
    if write.api.rbac.decide(write.user, attributes).allowed:
        return
    _check_held(write, read_role(obj).rules)
    aggregates = any(one is not None and one.get("aggregationRule") for one in (obj, old))
    if aggregates and _missing(write, EVERYTHING):
        why = "must have cluster-admin privileges to use the aggregationRule"
        raise forbidden(GROUP, write.resource.plural, write.name, why)


def _check_binding(write: Write, obj: Tree) -> None:
    binding = read_binding(obj)
    ref = binding.role_ref
    attributes = Attributes("bind", GROUP, f"{ref.kind.lower()}s", write.namespace, ref.name)
    if write.api.rbac.decide(write.user, attributes).allowed:
        return
    granted = write.api.rbac.rules_of(binding)
    if granted is None:
        raise not_found(GROUP, write.resource.plural, ref.name)  # as kube-apiserver reports it
    _check_held(write, granted)


def _same_but_for_its_end(obj: Tree, old: Tree) -> bool:
    """Whether only what garbage collection uses changed."""
    return _without(obj) == _without(old)


def _without(obj: Tree) -> Tree:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _OF_ITS_END}
    return {**obj, "metadata": metadata, "kind": "", "apiVersion": ""}


def _check_held(write: Write, granted: Iterable[Rule]) -> None:
    """Raise 403 if the user does not hold what it would grant."""
    missing = _missing(write, granted)
    if missing:
        groups = f"[{' '.join(map(_quoted, write.user.groups))}]"
        why = f"user {_quoted(write.user.name)} (groups={groups}) is attempting to grant RBAC permissions"
        listed = "\n".join(sorted(map(_compact, missing)))
        raise forbidden(GROUP, write.resource.plural, write.name, f"{why} not currently held:\n{listed}")


def _missing(write: Write, granted: Iterable[Rule]) -> list[Rule]:
    """Return what the user does not hold of the granted rules, one rule per resource and name; the first ones
    if there are very many."""
    held = write.api.rbac.rules(write.user, write.namespace)
    missing: dict[str, Rule] = {}
    place: dict[str, int] = {}  # verbs are reported in the order in which they are granted
    reported = 0
    for rule in granted:
        place |= {verb: len(place) + index for index, verb in enumerate(rule.verbs) if verb not in place}
        for cell in (
            cell for half in rule.halves() for piece in _lacking(half, held) for cell in piece.cells()
        ):
            about = _compact(cell if cell.non_resource_urls else msgspec.structs.replace(cell, verbs=[]))
            verbs = {*cell.verbs, *(missing[about].verbs if about in missing else ())}
            missing[about] = msgspec.structs.replace(cell, verbs=sorted(verbs, key=place.__getitem__))
            reported += len(cell.verbs)
            if reported >= _MOST_REPORTED:
                return list(missing.values())
    return list(missing.values())


def _lacking(half: Rule, held: Iterable[Rule]) -> list[Rule]:
    """Return what no held rule allows of `half`, or more than that once there are too many pieces."""
    pieces = [half]
    for rule in held:
        if len(pieces) > _MOST_PIECES:
            break
        pieces = [left for piece in pieces for left in piece.minus(rule)]
    return pieces


def _compact(rule: Rule) -> str:
    members = {
        "APIGroups": rule.api_groups,
        "Resources": rule.resources,
        "NonResourceURLs": rule.non_resource_urls,
        "ResourceNames": rule.resource_names,
        "Verbs": rule.verbs,
    }
    shown = [f"{name}:[{' '.join(map(_quoted, values))}]" for name, values in members.items() if values]
    return f"{{{', '.join(shown)}}}"


def _quoted(text: str) -> str:
    return encode_json(text).decode()
