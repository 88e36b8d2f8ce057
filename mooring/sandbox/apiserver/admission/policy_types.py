"""Types of a ValidatingAdmissionPolicy's expressions, checked against the kinds that it matches.

Policies may be about any kind, so mistakes are warnings in the status of a policy, not errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mooring.cel import types as cel
from mooring.cel.checker import Environment
from mooring.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, list_of, map_of
from mooring.sandbox.apiserver.context.resource import Registry, Resource
from mooring.sandbox.apiserver.kinds.types import ListOf, MapOf, ObjectType, Scalar, Type, object_type
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.admission_expressions import check_expression, declarations

_MOST_KINDS: Final = 10
_SCALARS: Final = {
    Scalar.STRING: STRING,
    Scalar.INTEGER: INT,
    Scalar.LONG: INT,
    Scalar.NUMBER: DOUBLE,
    Scalar.BOOLEAN: BOOL,
    Scalar.BYTES: BYTES,
    Scalar.QUANTITY: STRING,
    Scalar.TIME: TIMESTAMP,
    Scalar.MICRO_TIME: TIMESTAMP,
}
_FORMATS: Final = {"date-time": TIMESTAMP, "date": TIMESTAMP, "duration": DURATION, "byte": BYTES}
_SCHEMA_TYPES: Final = {"string": STRING, "integer": INT, "number": DOUBLE, "boolean": BOOL}

Fields = dict[str, Mapping[str, cel.Type]]


def type_warnings(registry: Registry, policy: Tree) -> list[Tree]:
    """Return what is wrong with the types of a policy's expressions, as its status has it."""
    spec = policy.get("spec") or {}
    environments = [(kind, environment(registry, spec, kind)) for kind in _kinds(registry, spec)]
    warnings = []
    for index, validation in enumerate(spec.get("validations") or ()):
        for member in ("expression", "messageExpression"):
            expression = validation.get(member)
            problems = [
                f"{kind.group}/{kind.version}, Kind={kind.kind}: {problem}\n"
                for kind, declared in environments
                if expression and (problem := check_expression(expression, declared).problem)
            ]
            if problems:
                where = f"spec.validations[{index}].{member}"
                warnings.append({"fieldRef": where, "warning": "\n".join(problems)})
    return warnings


def _kinds(registry: Registry, spec: Tree) -> list[Resource]:
    """Return the kinds that the rules name, without wildcards, in order."""
    found: dict[tuple[str, str, str], Resource] = {}
    for rule in dig(spec, "matchConstraints", "resourceRules") or ():
        names = [rule.get(member) or [] for member in ("apiGroups", "apiVersions", "resources")]
        if any("*" in values for values in names):
            continue
        for group, version, plural in _product(*names):
            resource = registry.find(group, version, plural)
            if resource is not None and len(found) < _MOST_KINDS:
                found[resource.group, resource.version, resource.kind] = resource
    return [found[key] for key in sorted(found)]


def _product(groups: list[str], versions: list[str], plurals: list[str]) -> Iterator[tuple[str, str, str]]:
    for group in sorted(groups):
        for version in sorted(versions):
            for plural in sorted(plurals):
                if "/" not in plural:
                    yield group, version, plural


def environment(registry: Registry, spec: Tree, resource: Resource) -> Environment:
    """Return what a policy's expressions may refer to, for objects of one kind."""
    fields: Fields = {}
    own = _of_resource(resource, fields)
    types = {"object": own, "oldObject": own}
    param = spec.get("paramKind")
    if param:
        params = registry.of_kind(param.get("apiVersion", ""), param.get("kind", ""))
        types["params"] = DYN if params is None else _of_resource(params, fields)
    variables: dict[str, cel.Type] = {}
    for variable in spec.get("variables") or ():
        visible = declarations(params=bool(param), variables=dict(variables), types=types, fields=fields)
        variables[variable["name"]] = check_expression(variable["expression"], visible).type
    return declarations(params=bool(param), variables=variables, types=types, fields=fields)


def _of_resource(resource: Resource, fields: Fields) -> cel.Type:
    if resource.type is not None:
        return _of_type(resource.type, fields)
    if resource.schema is None:
        return DYN
    root = f"custom.{resource.kind}"
    _add_schema(root, resource.schema, fields)
    metadata = _of_type(object_type("meta_v1", "ObjectMeta"), fields)
    fields[root] = {**fields.get(root, {}), "apiVersion": STRING, "kind": STRING, "metadata": metadata}
    return cel.Type(root)


def _of_type(type: Type, fields: Fields) -> cel.Type:
    """Return the type of a built-in field, adding the fields of what it is made of."""
    if isinstance(type, ListOf):
        return list_of(_of_type(type.item, fields))
    if isinstance(type, MapOf):
        return map_of(STRING, _of_type(type.value, fields))
    if not isinstance(type, ObjectType):
        return _SCALARS.get(type, DYN)
    name = f"io.k8s.{type}"
    if name not in fields:
        members: dict[str, cel.Type] = {}
        fields[name] = members  # before its members: some types hold themselves
        for field in type.fields.values():
            members[field.name] = _of_type(field.type, fields)
    return cel.Type(name)


def _add_schema(name: str, schema: Mapping[str, Any], fields: Fields) -> None:
    members = {
        member: _of_schema(f"{name}.{member}", inner, fields)
        for member, inner in (schema.get("properties") or {}).items()
    }
    fields[name] = members


def _of_schema(name: str, schema: Mapping[str, Any], fields: Fields) -> cel.Type:
    """Return the type of a custom field."""
    if schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields"):
        return DYN
    kind = schema.get("type")
    if kind == "array":
        return list_of(_of_schema(f"{name}.@idx", schema.get("items") or {}, fields))
    if kind == "object":
        if schema.get("properties"):
            _add_schema(name, schema, fields)
            return cel.Type(name)
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            return map_of(STRING, _of_schema(f"{name}.@elem", values, fields))
        return DYN
    if kind == "string":
        return _FORMATS.get(schema.get("format", ""), STRING)
    return _SCHEMA_TYPES.get(kind or "", DYN)
