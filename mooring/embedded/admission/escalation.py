"""Nobody grants what they do not have themselves, unless they may "escalate" roles or "bind" them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from mooring.embedded.admission.chain import AdmissionPlugin
from mooring.embedded.authorization.rbac import GROUP, MASTERS, read_binding, read_role
from mooring.embedded.authorization.rules import Asked, Rule
from mooring.embedded.errors import forbidden
from mooring.embedded.objects import Tree, encode_json
from mooring.embedded.verbs.write import Write

_ROLES: Final = (f"roles.{GROUP}", f"clusterroles.{GROUP}")
_BINDINGS: Final = (f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}")


class Escalation(AdmissionPlugin):
    operations = frozenset({"CREATE", "UPDATE"})
    storages = frozenset((*_ROLES, *_BINDINGS))

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if MASTERS in write.user.groups:
            return
        if write.resource.storage in _ROLES:
            unchanged = old is not None and old.get("rules") == obj.get("rules")
            asked = Asked("escalate", GROUP, write.resource.plural, write.namespace, write.name)
            granted = [] if unchanged else read_role(obj).rules
        else:
            binding = read_binding(obj)
            ref = binding.role_ref
            asked = Asked("bind", GROUP, f"{ref.kind.lower()}s", write.namespace, ref.name)
            granted = write.api.rbac.rules_of(binding) or []
        missing = _missing(write, granted)
        if missing and not write.api.rbac.decide(write.user, asked).allowed:
            groups = f"[{' '.join(map(_quoted, write.user.groups))}]"
            why = f"user {_quoted(write.user.name)} (groups={groups}) is attempting to grant RBAC permissions"
            told = "\n".join(sorted(map(_compact, missing)))
            name = write.name
            raise forbidden(GROUP, write.resource.plural, name, f"{why} not currently held:\n{told}")


def _missing(write: Write, granted: Iterable[Rule]) -> list[Rule]:
    """What of it somebody does not have, those of one resource together."""
    held = write.api.rbac.rules(write.user, write.namespace)
    parts = [part for rule in granted for part in rule.parts() if not any(one.covers(part) for one in held)]
    found: dict[str, Rule] = {}
    for part in parts:
        whole = part.non_resource_urls  # these are told one by one
        about = _compact(part if whole else msgspec.structs.replace(part, verbs=[]))
        verbs = found[about].verbs if about in found else []
        found[about] = msgspec.structs.replace(part, verbs=[*verbs, *part.verbs])
    return list(found.values())


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
