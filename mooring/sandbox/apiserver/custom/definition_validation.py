"""Validation of CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from mooring.sandbox.apiserver.custom.definition_names import check_label, check_names
from mooring.sandbox.apiserver.custom.schema_validation import check_schema
from mooring.sandbox.apiserver.errors import (
    Cause,
    duplicate,
    invalid_value,
    not_supported,
    required,
)
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.names import dns_subdomain

_APPROVAL: Final = "api-approved.kubernetes.io"
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MOST_SELECTABLE: Final = 8
Schemas = Mapping[str, Tree]
"""Schemas by the names of their versions."""
_Check = Callable[[Tree, Any, str, Schemas], Iterator[Cause]]


def check_definition(obj: Tree) -> list[Cause]:
    """Validate a new definition, except for its metadata."""
    spec: Tree = obj.get("spec") or {}
    names: Tree = spec.get("names") or {}
    causes: list[Cause] = []
    if obj["metadata"].get("name") != f"{names.get('plural', '')}.{spec.get('group', '')}":
        name = obj["metadata"].get("name", "")
        causes.append(invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    causes += _check_spec(spec, {})
    causes += _check_stored(obj)
    causes += _check_approval(obj)
    if spec.get("preserveUnknownFields"):
        why = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        causes.append(invalid_value("spec.preserveUnknownFields", True, why))
    return causes


def check_definition_update(obj: Tree, old: Tree) -> list[Cause]:
    """Validate an updated definition."""
    if obj.get("spec") == old.get("spec"):  # it was checked when it was written
        return _check_stored(obj)
    before = {version.get("name"): version.get("schema") for version in dig(old, "spec", "versions") or ()}
    causes = list(_check_spec(obj.get("spec") or {}, before))
    fixed: list[tuple[str, ...]] = [("group",), ("names", "plural")]
    if condition(old, "Established") == "True":
        fixed = [("scope",), ("names", "kind"), *fixed]
    for path in fixed:
        now, before = dig(obj, "spec", *path), dig(old, "spec", *path)
        if now != before:
            causes.append(invalid_value(f"spec.{'.'.join(path)}", now, "field is immutable"))
    return causes + _check_stored(obj)


def condition(definition: Tree, type: str) -> str:
    """Return the status of a condition of a definition; empty if it has none."""
    for one in dig(definition, "status", "conditions") or ():
        if one.get("type") == type:
            return str(one.get("status", ""))
    return ""


def _check_spec(spec: Tree, before: Schemas) -> Iterator[Cause]:
    group, versions = spec.get("group") or "", spec.get("versions") or []
    if not group:
        yield required("spec.group")
    elif problems := dns_subdomain(group):
        yield invalid_value("spec.group", group, ",".join(problems))
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
    if not spec.get("scope"):
        yield required("spec.scope")
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
    for index, version in enumerate(versions):
        if not dig(version, "schema", "openAPIV3Schema"):
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    yield from _check_versions(versions, before)
    if versions:
        yield from check_label("spec.version", versions[0].get("name") or "")
    yield from check_names(spec.get("names") or {}, "spec.names")
    for member, (place, check) in _SHARED.items():
        if _is_shared(versions, member):
            yield from check(versions[0], versions[0][member], f"spec.{place}", before)
    yield from _check_conversion(spec.get("conversion") or {}, "spec.conversion")


def _is_shared(versions: list[Tree], member: str) -> bool:
    """Whether all versions say the same; Kubernetes then reports it once, at another path."""
    first = versions[0].get(member) if versions else None
    return bool(first) and all(version.get(member) == first for version in versions)


def _check_versions(versions: list[Tree], before: Schemas) -> Iterator[Cause]:
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        yield from check_label(f"{path}.name", version.get("name") or "")
        warning = version.get("deprecationWarning")
        if warning is not None and not version.get("deprecated"):
            yield invalid_value(
                f"{path}.deprecationWarning", warning, "can only be set for deprecated versions"
            )
        for member, (_, check) in _SHARED.items():
            if version.get(member) and not _is_shared(versions, member):
                yield from check(version, version[member], f"{path}.{member}", before)
    names = [version.get("name") for version in versions]
    if len(set(names)) < len(names):
        yield invalid_value("spec.versions", _shown(versions), "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        yield invalid_value("spec.versions", _shown(versions), why)


def _shown(versions: list[Tree]) -> list[Tree] | None:
    """Show versions as messages of Kubernetes do: in the form of its Go types, without what all share."""
    members = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
    shown = []
    for version in versions:
        facts = {
            "Name": version.get("name", ""),
            "Served": bool(version.get("served")),
            "Storage": bool(version.get("storage")),
            "Deprecated": bool(version.get("deprecated")),
            "DeprecationWarning": version.get("deprecationWarning"),
        }
        rest = {
            name[0].upper() + name[1:]: None if _is_shared(versions, name) else version.get(name)
            for name in members
        }
        shown.append({**facts, **rest})
    return shown


# ---- what each version has ------------------------------------------------------------------------


def _check_schema(version: Tree, schema: Tree, path: str, before: Schemas) -> Iterator[Cause]:
    tree = schema.get("openAPIV3Schema")
    if tree:
        status = dig(version, "subresources", "status") is not None
        unchanged = before.get(version.get("name") or "") == schema
        yield from check_schema(tree, f"{path}.openAPIV3Schema", status=status, unchanged=unchanged)


def _check_subresources(version: Tree, subresources: Tree, path: str, before: Schemas) -> Iterator[Cause]:
    scale = subresources.get("scale")
    if scale is None:
        return
    for name, parts in (("specReplicasPath", ("spec",)), ("statusReplicasPath", ("status",))):
        at, text = f"{path}.scale.{name}", scale.get(name) or ""
        yield from _check_path(at, text, parts) if text else (required(at),)
    if scale.get("labelSelectorPath"):
        at = f"{path}.scale.labelSelectorPath"
        yield from _check_path(at, scale["labelSelectorPath"], ("spec", "status"))


def _check_path(at: str, text: str, parts: tuple[str, ...]) -> Iterator[Cause]:
    if not text.startswith("."):
        yield invalid_value(at, text, "must be a simple json path starting with .")
    elif not text.startswith(tuple(f".{part}." for part in parts)):
        under = f".{parts[0]}" if len(parts) == 1 else "either .spec or .status"
        yield invalid_value(at, text, f"should be a json path under {under}")


def _check_columns(version: Tree, columns: list[Tree], path: str, before: Schemas) -> Iterator[Cause]:
    for index, column in enumerate(columns):
        at = f"{path}[{index}]"
        if not column.get("name"):
            yield required(f"{at}.name")
        choices = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not column.get("type"):
            yield required(f"{at}.type", choices)
        elif column["type"] not in _COLUMN_TYPES:
            yield invalid_value(f"{at}.type", column["type"], choices)
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            choices = f"must be one of {','.join(_COLUMN_FORMATS)}"
            yield invalid_value(f"{at}.format", column["format"], choices)
        if not column.get("jsonPath"):
            yield required(f"{at}.JSONPath")
        elif not column["jsonPath"].startswith("."):
            why = "must be a simple json path starting with ."
            yield invalid_value(f"{at}.JSONPath", column["jsonPath"], why)


def _check_selectable(version: Tree, fields: list[Tree], path: str, before: Schemas) -> Iterator[Cause]:
    schema = dig(version, "schema", "openAPIV3Schema") or {}
    seen: set[str] = set()
    for index, field in enumerate(fields):
        at, text = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not text:
            yield required(at)
            continue
        target = _schema_at(schema, text)
        if target is None:
            yield invalid_value(at, text, "is an invalid path: does not refer to a valid field")
            continue
        if target.get("type") not in ("string", "boolean", "integer"):
            why = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings "
                "with formats are allowed."
            )
            yield invalid_value(at, text, why)
        if text in seen:
            yield duplicate(at, text)
        seen.add(text)
    if len(seen) > _MOST_SELECTABLE:
        message = f"Too many: {len(seen)}: must have at most {_MOST_SELECTABLE} items"
        yield Cause("FieldValueTooMany", path, message)


def _schema_at(schema: Tree, path: str) -> Tree | None:
    """Return the schema of the field that a path such as .spec.color leads to."""
    if not path.startswith("."):
        return None
    node: Any = schema
    for name in path[1:].split("."):
        node = dig(node, "properties", name)
    return node if isinstance(node, dict) else None


_SHARED: Final[dict[str, tuple[str, _Check]]] = {
    "schema": ("validation", _check_schema),
    "subresources": ("subresources", _check_subresources),
    "additionalPrinterColumns": ("additionalPrinterColumns", _check_columns),
    "selectableFields": ("selectableFields", _check_selectable),
}
"""Members of a version, with the path and the wording used when all versions say the same."""


# ---- the rest -------------------------------------------------------------------------------------


def _check_conversion(conversion: Tree, path: str) -> Iterator[Cause]:
    strategy = conversion.get("strategy") or ""
    if strategy not in ("", "None", "Webhook"):
        yield not_supported(f"{path}.strategy", strategy, ("None", "Webhook"))
    if strategy == "Webhook":
        if dig(conversion, "webhook", "clientConfig") is None:
            yield required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
        if not dig(conversion, "webhook", "conversionReviewVersions"):
            yield required(f"{path}.conversionReviewVersions")


def _check_stored(obj: Tree) -> list[Cause]:
    """Versions in which objects were stored must stay while there may be such objects."""
    versions: list[Tree] = dig(obj, "spec", "versions") or []
    stored, path = dig(obj, "status", "storedVersions") or [], "status.storedVersions"
    if not stored:
        return [invalid_value(path, None, "must have at least one stored version")]
    names = {version.get("name") for version in versions}
    causes = []
    for index, name in enumerate(stored):
        if name not in names:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                "spec.versions until a storage migration ensures no data remains persisted in "
                f"{name} and removes {name} from status.storedVersions"
            )
            causes.append(invalid_value(f"{path}[{index}]", name, why))
    return causes


def _check_approval(obj: Tree) -> Iterator[Cause]:
    group = dig(obj, "spec", "group") or ""
    if not group.endswith((".k8s.io", ".kubernetes.io")) and group not in ("k8s.io", "kubernetes.io"):
        return
    approval = (obj["metadata"].get("annotations") or {}).get(_APPROVAL, "")
    at = f"metadata.annotations[{_APPROVAL}]"
    if not approval:
        link = "https://github.com/kubernetes/enhancements/pull/1111"
        yield required(at, f'protected groups must have approval annotation "{_APPROVAL}", see {link}')
    elif not approval.startswith(("unapproved", "https://", "http://")):
        why = (
            f'protected groups must have approval annotation "{_APPROVAL}" with either a URL or a reason '
            'starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111'
        )
        yield invalid_value(at, approval, why)
