"""Parsing options of requests, from query parameters or from a DeleteOptions body."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from mooring.api.preparing import prepare
from mooring.sandbox.apiserver.context.options import DEFAULT_WRITE, DeleteOptions, ListOptions, WriteOptions
from mooring.sandbox.apiserver.errors import (
    Cause,
    bad_request,
    forbidden_value,
    invalid,
    invalid_value,
    not_supported,
)
from mooring.sandbox.apiserver.kinds.codec import FieldValidation, cannot_handle

Params = Mapping[str, list[str]]

LONGEST_SELECTOR = 16_384
_GROUP = "meta.k8s.io"
_INT64 = 2**63
_POLICIES = ("Foreground", "Background", "Orphan")


def text_param(params: Params, name: str) -> str:
    texts = params.get(name)
    return texts[0] if texts else ""


def integer_param(params: Params, name: str) -> int | None:
    text = text_param(params, name)
    if not text:
        return None
    try:
        number = int(text) if text.isascii() and "_" not in text and text == text.strip() else None
    except ValueError:
        number = None
    if number is None or not -_INT64 <= number < _INT64:
        problem = "invalid syntax" if number is None else "value out of range"
        raise bad_request(f'strconv.ParseInt: parsing "{text[:100]}": {problem}')
    return number


def boolean_param(params: Params, name: str) -> bool | None:
    """Parse a boolean like apimachinery: anything but "false" and "0" is true."""
    if name not in params:
        return None
    return text_param(params, name).lower() not in ("false", "0")


def list_options(params: Params) -> ListOptions:
    """Parse the options of list, watch and deletecollection. Raises ApiError."""
    options = ListOptions(
        label_selector=_selector(params, "labelSelector"),
        field_selector=_selector(params, "fieldSelector"),
        limit=integer_param(params, "limit") or 0,
        continue_token=text_param(params, "continue"),
        resource_version=text_param(params, "resourceVersion"),
        resource_version_match=text_param(params, "resourceVersionMatch"),
        timeout_seconds=integer_param(params, "timeoutSeconds"),
        bookmarks=boolean_param(params, "allowWatchBookmarks") or False,
        send_initial_events=boolean_param(params, "sendInitialEvents"),
    )
    watch = boolean_param(params, "watch") or False
    _refuse("ListOptions", _list_problems(options, watch))
    return options


def _selector(params: Params, name: str) -> str:
    text = text_param(params, name)
    if len(text) > LONGEST_SELECTOR:
        raise bad_request(f"{name}: {len(text)} characters are more than the {LONGEST_SELECTOR} allowed")
    return text


def _list_problems(options: ListOptions, watch: bool) -> list[Cause]:
    if watch:
        return _watch_problems(options)
    causes = []
    match, field = options.resource_version_match, "resourceVersionMatch"
    if options.send_initial_events is not None:
        causes.append(forbidden_value("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if match and not options.resource_version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        causes.append(forbidden_value(field, why))
    if match and options.continue_token:
        causes.append(forbidden_value(field, "resourceVersionMatch is forbidden when continue is provided"))
    if match and match not in ("Exact", "NotOlderThan"):
        causes.append(not_supported(field, match, ("Exact", "NotOlderThan", "")))
    if match == "Exact" and options.resource_version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        causes.append(forbidden_value(field, why))
    return causes


def _watch_problems(options: ListOptions) -> list[Cause]:
    causes, match = [], options.resource_version_match
    if match and options.send_initial_events is None:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(forbidden_value("resourceVersionMatch", why))
    if options.send_initial_events is not None and not match:
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(forbidden_value("resourceVersionMatch", why))
    elif options.send_initial_events is not None and match != "NotOlderThan":
        causes.append(not_supported("resourceVersionMatch", match, ("NotOlderThan",)))
    if options.send_initial_events and not options.bookmarks:
        causes.append(
            forbidden_value(
                "sendInitialEvents", "sendInitialEvents requires setting allowWatchBookmarks to true"
            )
        )
    return causes


def write_options(params: Params, kind: str) -> WriteOptions:
    """Parse options of create, update and patch; `kind` is CreateOptions and the like. Raises ApiError."""
    if not params:
        return DEFAULT_WRITE
    return _write_options(tuple((name, *texts) for name, texts in params.items()), kind)


@lru_cache(maxsize=1024)
def _write_options(items: tuple[tuple[str, ...], ...], kind: str) -> WriteOptions:
    """Cached: clients repeat their options with every write."""
    params = {name: texts for name, *texts in items}
    manager, validation = text_param(params, "fieldManager"), text_param(params, "fieldValidation")
    causes = []
    if len(manager) > 128:
        causes.append(Cause("FieldValueTooLong", "fieldManager", "Too long: may not be more than 128 bytes"))
    elif not manager.isprintable():
        causes.append(invalid_value("fieldManager", manager, "should only contain printable characters"))
    if validation not in ("", "Ignore", "Strict", "Warn"):
        causes.append(not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    dry_run = _dry_run(params.get("dryRun", []), causes)
    _refuse(kind, causes)
    return WriteOptions(
        dry_run=dry_run,
        field_manager=manager,
        field_validation=FieldValidation(validation or "Warn"),
        force=boolean_param(params, "force"),
    )


def _dry_run(values: list[str], causes: list[Cause]) -> bool:
    values = [value for value in values if value]
    if any(value != "All" for value in values):
        causes.append(not_supported("dryRun", values, ("All",)))
    return bool(values)


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _DeleteBody(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    dry_run: list[str] | None = None
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: _Preconditions | None = None


prepare(_DeleteBody)


def delete_options(params: Params, body: Any) -> DeleteOptions:
    """Parse the options of a delete: of the body if there is one, else of the query. Raises ApiError."""
    if body is None:
        options = _DeleteBody(
            dry_run=params.get("dryRun"),
            grace_period_seconds=integer_param(params, "gracePeriodSeconds"),
            propagation_policy=text_param(params, "propagationPolicy") or None,
            orphan_dependents=boolean_param(params, "orphanDependents"),
        )
    else:
        options = _read_delete_body(body)
    preconditions = options.preconditions or _Preconditions()
    causes: list[Cause] = []
    dry_run = _dry_run(options.dry_run or [], causes)
    if options.propagation_policy is not None and options.orphan_dependents is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(invalid_value("propagationPolicy", options.propagation_policy, why))
    if options.propagation_policy is not None and options.propagation_policy not in _POLICIES:
        supported = (*_POLICIES, "nil")
        causes.append(not_supported("propagationPolicy", options.propagation_policy, supported))
    _refuse("DeleteOptions", causes)
    return DeleteOptions(
        dry_run=dry_run,
        grace_period_seconds=options.grace_period_seconds,
        propagation_policy=options.propagation_policy,
        orphan_dependents=options.orphan_dependents,
        uid=preconditions.uid,
        resource_version=preconditions.resource_version,
    )


def _read_delete_body(body: Any) -> _DeleteBody:
    try:
        options = msgspec.convert(body, _DeleteBody)
    except msgspec.ValidationError as error:
        raise cannot_handle("DeleteOptions", "v1", "DeleteOptions", str(error)) from None
    if options.kind not in ("", "DeleteOptions"):
        raise cannot_handle(
            options.kind,
            options.api_version,
            "DeleteOptions",
            f'expected kind DeleteOptions, found "{options.kind}"',
        )
    return options


def _refuse(kind: str, causes: list[Cause]) -> None:
    if causes:
        raise invalid(_GROUP, kind, "", causes)
