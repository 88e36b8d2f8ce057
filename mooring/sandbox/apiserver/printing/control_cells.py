"""Cells of role bindings, certificate requests, admission policies, flow schemas and API services."""

from __future__ import annotations

from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.printing.ages import human_duration
from mooring.sandbox.apiserver.printing.shared_cells import UNSET, condition, selector


def bound_users(subjects: list[Tree] | None) -> str:
    return ", ".join(one["name"] for one in _of_kind(subjects, "User"))


def bound_groups(subjects: list[Tree] | None) -> str:
    return ", ".join(one["name"] for one in _of_kind(subjects, "Group"))


def bound_accounts(subjects: list[Tree] | None) -> str:
    accounts = _of_kind(subjects, "ServiceAccount")
    return ", ".join(f"{one.get('namespace', '')}/{one['name']}" for one in accounts)


def _of_kind(subjects: list[Tree] | None, kind: str) -> list[Tree]:
    return [one for one in subjects or () if one.get("kind") == kind]


def requested_duration(seconds: int) -> str:
    return human_duration(seconds)


def request_condition(status: Tree | None) -> str:
    status = status or {}
    conditions, state = status.get("conditions"), "Pending"
    if condition(conditions, "Denied") is not None:
        state = "Denied"
    elif condition(conditions, "Approved") is not None:
        state = "Approved"
    if condition(conditions, "Failed") is not None:
        state += ",Failed"
    return f"{state},Issued" if status.get("certificate") else state


def parameter_kind(kind: Tree) -> str:
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def parameter(reference: Tree | None) -> str:
    reference = reference or {}
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return selector(reference["selector"]) if reference.get("selector") is not None else UNSET


def dangling(conditions: list[Tree] | None) -> str:
    state = condition(conditions, "Dangling")
    return "?" if state is None else state.get("status", "")


def available(conditions: list[Tree] | None) -> str:
    state = condition(conditions, "Available")
    if state is None:
        return "Unknown"
    status, reason = state.get("status", ""), state.get("reason")
    return f"{status} ({reason})" if reason and status != "True" else status
