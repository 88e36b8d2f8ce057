"""RBAC: what roles and bindings allow a user to do."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from mooring.api.decode import strip_nulls
from mooring.api.meta import KubeObject, Value
from mooring.api.preparing import prepare
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.authorization.nodes import decide_for_node
from mooring.sandbox.apiserver.authorization.rules import EVERYTHING, Attributes, Rule, Rules
from mooring.sandbox.apiserver.authorization.users import ACCOUNT, MASTERS, User
from mooring.sandbox.apiserver.errors import forbidden, show
from mooring.sandbox.apiserver.mirror import Mirror
from mooring.sandbox.apiserver.objects import Tree, decode_record
from mooring.sandbox.apiserver.store.record import Record
from mooring.sandbox.apiserver.store.store import Store

GROUP: Final = "rbac.authorization.k8s.io"


class Subject(Value, frozen=True):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class RoleRef(Value, frozen=True):
    kind: str = ""
    name: str = ""


class Role(KubeObject):
    """A Role or a ClusterRole."""

    rules: list[Rule] = []


_decode_role = msgspec.json.Decoder(Role).decode


class Binding(KubeObject):
    """A RoleBinding or a ClusterRoleBinding."""

    subjects: list[Subject] = []
    role_ref: RoleRef = RoleRef()


prepare(Binding)


class Grant(NamedTuple):
    """A binding and one of its subjects."""

    binding: Binding
    subject: Subject

    @property
    def description(self) -> str:
        binding, to = self.binding, self.subject
        ref, what = binding.role_ref, f'ClusterRoleBinding "{binding.name}"'
        if binding.namespace:
            what = f'RoleBinding "{binding.name}/{binding.namespace}"'
        subject = f"{to.name}/{to.namespace}" if to.kind == "ServiceAccount" else to.name
        return f'{what} of {ref.kind} "{ref.name}" to {to.kind} "{subject}"'


Grants = dict[tuple[str, str], list[Grant]]
"""By namespace and subject."""


class Decision(NamedTuple):
    allowed: bool
    reason: str = ""


class Rbac:
    """Authorizes requests by the roles and bindings in a store, and nodes by the pods that are bound to
    them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._roles = _Roles(f"roles.{GROUP}")
        self._cluster_roles = _Roles(f"clusterroles.{GROUP}")
        self._bindings = Mirror(f"rolebindings.{GROUP}", _index_grants, read_binding)
        self._cluster_bindings = Mirror(f"clusterrolebindings.{GROUP}", _index_grants, read_binding)

    def over(self, store: Store) -> Rbac:
        """Return the same by the roles and bindings in another store."""
        other = copy.copy(self)
        other._store = store
        return other

    def check(self, user: User, attributes: Attributes) -> None:
        """Raise 403 unless the user is allowed to do this."""
        decision = self.decide(user, attributes)
        if not decision.allowed:
            raise _forbidden(user, attributes, decision.reason)

    def decide(self, user: User, attributes: Attributes) -> Decision:
        """Decide whether a user may do something, and by which binding."""
        if MASTERS in user.groups:
            return Decision(True)
        allowed, why = decide_for_node(self._store, user, attributes)
        if allowed:
            return Decision(True)
        problems: dict[str, None] = {}
        tried: set[Rules] = set()  # many bindings may name one role
        for grant in self._grants_of(user, attributes.namespace):
            rules = self._find(grant.binding)
            if rules is None:
                problems[_missing(grant.binding)] = None
            elif rules not in tried:
                if rules.allow(attributes):
                    return Decision(True, f"RBAC: allowed by {grant.description}")
                tried.add(rules)
        return Decision(False, "\n".join(filter(None, (why, _join(list(problems))))))

    def rules(self, user: User, namespace: str) -> list[Rule]:
        """Return all rules that apply to a user in a namespace and in the cluster."""
        unlimited = list(EVERYTHING) if MASTERS in user.groups else []
        granted = (self.rules_of(grant.binding) for grant in self._grants_of(user, namespace))
        return unlimited + [rule for rules in granted if rules is not None for rule in rules]

    def rules_of(self, binding: Binding) -> list[Rule] | None:
        """Return the rules that a binding grants; None if its role does not exist."""
        rules = self._find(binding)
        return None if rules is None else rules.rules

    def _find(self, binding: Binding) -> Rules | None:
        ref = binding.role_ref
        if ref.kind == "ClusterRole":
            return self._cluster_roles.get(self._store, ref.name)
        return self._roles.get(self._store, f"{binding.namespace}/{ref.name}")

    def _grants_of(self, user: User, namespace: str) -> Iterator[Grant]:
        keys = [f"User {user.name}", *(f"Group {name}" for name in user.groups)]
        if user.name.startswith(ACCOUNT):
            keys.append(f"ServiceAccount {user.name.removeprefix(ACCOUNT)}")
        yield from _of_subjects(self._cluster_bindings.get(self._store), "", keys)
        if namespace:
            yield from _of_subjects(self._bindings.get(self._store), namespace, keys)


def _of_subjects(grants: Grants, namespace: str, keys: Iterable[str]) -> Iterator[Grant]:
    for key in keys:
        yield from grants.get((namespace, key), ())


class _Roles:
    """The rules of roles, read when they are first used at a version."""

    def __init__(self, storage: str) -> None:
        self._storage = storage
        self._read: dict[str, tuple[Record, Rules]] = {}

    def get(self, store: Store, key: str) -> Rules | None:
        record = store.table(self._storage).get(key)
        if record is None:
            self._read.pop(key, None)
            return None
        known = self._read.get(key)
        if known is None or known[0] is not record:
            known = self._read[key] = record, Rules(_read_rules(record))
        return known[1]


def _read_rules(record: Record) -> list[Rule]:
    try:
        return _decode_role(record.body).rules
    except msgspec.ValidationError:  # there are nulls
        return read_role(decode_record(record, "", "")).rules


def read_role(tree: Tree) -> Role:
    return msgspec.convert(strip_nulls(tree), Role)


def read_binding(tree: Tree) -> Binding:
    return msgspec.convert(strip_nulls(tree), Binding)


def _index_grants(bindings: Iterable[Binding]) -> Grants:
    grants: Grants = {}
    for binding in bindings:
        for subject in binding.subjects:
            name = subject.name
            if subject.kind == "ServiceAccount":
                name = f"{subject.namespace or binding.namespace}:{name}"
            key = binding.namespace, f"{subject.kind} {name}"
            grants.setdefault(key, []).append(Grant(binding, subject))
    return grants


def _missing(binding: Binding) -> str:
    ref = binding.role_ref
    return f'{ref.kind.lower()}.{GROUP} "{ref.name}" not found'


def _join(problems: list[str]) -> str:
    if not problems:
        return ""
    return f"RBAC: {problems[0] if len(problems) == 1 else '[' + ', '.join(problems) + ']'}"


def _forbidden(user: User, attributes: Attributes, reason: str) -> ApiError:
    because = f": {reason}" if reason else ""
    if attributes.path:
        action = f"{attributes.verb} path {show(attributes.path)}"
        message = f"forbidden: User {show(user.name)} cannot {action}{because}"
        return ApiError(403, "Forbidden", message, details={})
    where = (
        f"in the namespace {show(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    )
    why = (
        f"User {show(user.name)} cannot {attributes.verb} resource {show(attributes.resource)} "
        f"in API group {show(attributes.group)} {where}{because}"
    )
    return forbidden(attributes.group, attributes.resource.partition("/")[0], attributes.name, why)
