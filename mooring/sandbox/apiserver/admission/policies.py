"""What validating and mutating admission policies have in common: bindings and parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.admission.attributes import Attributes
from mooring.sandbox.apiserver.admission.matching import GROUP, is_exempt, match, read_selector
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.mirror import Mirror
from mooring.sandbox.apiserver.objects import Tree, decode_record
from mooring.sandbox.apiserver.store.store import Store


class Policy(NamedTuple):
    """A policy and its bindings, in the order of their names."""

    name: str
    spec: Tree
    bindings: list[Tree]

    @property
    def ignores_failures(self) -> bool:
        return bool(self.spec.get("failurePolicy") == "Ignore")

    @property
    def variables(self) -> list[tuple[str, str]]:
        return [(one["name"], one["expression"]) for one in self.spec.get("variables") or ()]


class ConfigurationError(Exception):
    """A policy or its binding cannot be evaluated as it is."""


class Invocation(NamedTuple):
    """A policy to evaluate with one binding and one parameter, or what is wrong with it."""

    policy: Policy
    binding: Tree | None
    resource: Resource
    params: Tree | None = None
    error: str = ""


class Policies:
    """The policies of one kind that have bindings."""

    def __init__(self, plural: str) -> None:
        self._policies = Mirror(f"{plural}policies.{GROUP}", _by_name)
        self._bindings = Mirror(f"{plural}policybindings.{GROUP}", _by_policy)
        self._bound: tuple[Any, Any, list[Policy]] = (None, None, [])

    def get(self, store: Store) -> list[Policy]:
        bindings = self._bindings.get(store)
        if not bindings:
            return []
        policies = self._policies.get(store)
        bound = self._bound
        if bound[0] is not policies or bound[1] is not bindings:
            names = [name for name in sorted(bindings) if name in policies]
            every = [Policy(name, policies[name], bindings[name]) for name in names]
            bound = self._bound = policies, bindings, every  # at once: requests may be handled in threads
        return bound[2]

    def invocations(self, attributes: Attributes) -> Iterator[Invocation]:
        """Yield what has to be evaluated for a write, in order."""
        if is_exempt(attributes.write.resource):
            return
        for policy in self.get(attributes.write.api.store):
            yield from _invocations(policy, attributes)


def _by_name(trees: Iterable[Tree]) -> dict[str, Tree]:
    return {tree["metadata"]["name"]: tree["spec"] for tree in trees}


def _by_policy(trees: Iterable[Tree]) -> dict[str, list[Tree]]:
    bindings: dict[str, list[Tree]] = {}
    for tree in trees:
        bindings.setdefault(tree["spec"].get("policyName", ""), []).append(tree)
    return bindings


def _invocations(policy: Policy, attributes: Attributes) -> Iterator[Invocation]:
    own = attributes.write.resource
    try:
        resource = match(attributes, policy.spec.get("matchConstraints") or {})
        if resource is None:
            return
        param_resource = _param_resource(attributes.write, policy)
    except (ConfigurationError, ApiError) as error:
        yield Invocation(policy, None, own, error=f"failed to configure policy: {error}")
        return
    for binding in policy.bindings:
        try:
            spec = binding["spec"]
            if spec.get("matchResources") and match(attributes, spec["matchResources"]) is None:
                continue
            params = _params(attributes, param_resource, spec.get("paramRef"))
        except (ConfigurationError, ApiError) as error:
            yield Invocation(policy, binding, own, error=f"failed to configure binding: {error}")
            continue
        for one in params:
            yield Invocation(policy, binding, resource, one)


# ---- parameters -----------------------------------------------------------------------------------


def _param_resource(write: Write, policy: Policy) -> Resource | None:
    kind = policy.spec.get("paramKind")
    if not kind:
        return None
    resource = write.api.registry.of_kind(kind.get("apiVersion", ""), kind.get("kind", ""))
    if resource is None:
        group, _, version = kind.get("apiVersion", "").rpartition("/")
        named = f"{group}/{version}, Kind={kind.get('kind', '')}"
        raise ConfigurationError(f"failed to find resource referenced by paramKind: '{named}'")
    return resource


def _params(attributes: Attributes, resource: Resource | None, ref: Tree | None) -> list[Tree | None]:
    """Return the parameters that a binding selects; None stands for a policy without parameters."""
    if resource is None or not ref:
        return [None]
    namespace = ref.get("namespace", "")
    if resource.namespaced:
        namespace = namespace or attributes.namespace
        if not namespace:
            raise ConfigurationError(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    elif namespace:
        raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    found = list(_selected(attributes.write, resource, namespace, ref))
    if not found and ref.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


def _selected(write: Write, resource: Resource, namespace: str, ref: Tree) -> Iterator[Tree | None]:
    table = write.api.table(resource)
    if ref.get("name"):
        record = write.api.record(resource.storage, ref["name"], namespace)
        records = [] if record is None else [record]
    else:
        selector = read_selector(ref.get("selector"))
        every = (table.records[key] for key in table.keys(namespace))
        records = [record for record in every if selector.matches(record.labels)]
    for record in records:
        tree = decode_record(record, resource.api_version, resource.kind)
        if resource.conversion is not None:
            resource.conversion.from_storage(tree)
        yield tree
