"""Plain facts about how a kind is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mooring.sandbox.apiserver.validation.names import dns_subdomain


class ScalePaths(NamedTuple):
    """The fields that the scale subresource of an object shows."""

    replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ("spec", "selector")
    custom: bool = False
    """Whether a definition sets the paths; then the selector is a text already."""


class Traits(NamedTuple):
    status: bool = False
    """Whether the status is written through its subresource only."""
    status_keeps: tuple[str, ...] = ()
    """Members of the metadata that a write to the status does not change."""
    generation: bool = False
    """Whether changes other than of status and metadata increment the generation."""
    create_on_update: bool = False
    unconditional_update: bool = True
    """Whether an update may omit the resource version."""
    return_deleted: bool = False
    """Whether delete answers with the object instead of a Status."""
    orphan_by_default: bool = False
    """Whether deleting without a policy orphans the dependents."""
    name: Callable[[str], Sequence[str]] = dns_subdomain
    """The rule for names."""
    selectable: tuple[str, ...] = ()
    """Fields that field selectors may name, in addition to name and namespace."""
    scale: ScalePaths = ScalePaths()
    any_finalizer: bool = False
    """Whether finalizers need no domain: those of definitions and of custom resources."""
