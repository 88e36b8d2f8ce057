"""Plain facts about how a kind is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mooring.sandbox.apiserver.validation.names import dns_subdomain


class ScalePaths(NamedTuple):
    """Where an object has what its scale subresource shows."""

    replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ("spec", "selector")
    custom: bool = False
    """Whether a definition says so; then the selector is a text already."""


class Traits(NamedTuple):
    status: bool = False
    """Whether the status is written through its subresource only."""
    status_keeps: tuple[str, ...] = ()
    """What of the metadata a write to the status does not change."""
    generation: bool = False
    """Whether changes of what is not status or metadata are counted."""
    create_on_update: bool = False
    unconditional_update: bool = True
    """Whether an update may leave out the resource version."""
    return_deleted: bool = False
    """Whether delete answers with the object instead of a Status."""
    orphan_by_default: bool = False
    """Whether deleting without a policy leaves the dependents alone."""
    name: Callable[[str], Sequence[str]] = dns_subdomain
    """The rule for names."""
    selectable: tuple[str, ...] = ()
    """Fields that field selectors may name, besides name and namespace."""
    scale: ScalePaths = ScalePaths()
    any_finalizer: bool = False
    """Whether finalizers need no domain: those of definitions and of what they define."""
