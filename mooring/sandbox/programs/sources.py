"""What a node knows of a pod's surroundings, and the values that variables and files take from it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from mooring.api.meta import ObjectMeta, Quantity
from mooring.api.quantity import QuantityError, parse
from mooring.sandbox.programs.specs import ContainerSpec, FieldRef, ResourceFieldRef

Data = Mapping[str, str]
"""Keys and values of a ConfigMap or Secret; bytes that are not UTF-8 are escaped as surrogates."""

Tokens = Mapping[tuple[str, int], str]
"""Tokens of the pod's service account, by audience and lifetime."""

_FIELD: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_BYTES: Final = frozenset(("memory", "ephemeral-storage"))


class Sources(NamedTuple):
    """The values are None where they are not known: while a log is computed without its node.
    A ConfigMap or Secret that does not exist has no data."""

    metadata: ObjectMeta
    config_maps: Mapping[str, Data | None] | None = None
    secrets: Mapping[str, Data | None] | None = None
    services: Mapping[str, str] | None = None
    """The variables of Services, by their names."""
    fields: Mapping[str, str] = {}
    """Fields of the pod's spec and status."""
    allocatable: Mapping[str, Quantity] | None = None
    """What containers without limits can use: the limits of their pod, else all of the node."""
    capacity: Mapping[str, Quantity] | None = None
    """Of the node."""
    tokens: Tokens = {}
    env_files: Mapping[tuple[str, str], str | None] | None = None
    """Files that variables of a container come from, by volume and path; None for one that does not exist."""
    hostname: str = ""
    """What the containers call themselves, if it is not the name of the pod."""

    def read_field(self, ref: FieldRef) -> str | None:
        """Return the value of a field of the pod."""
        path, metadata = ref.field_path, self.metadata
        if path in ("metadata.name", "metadata.namespace", "metadata.uid"):
            return str(getattr(metadata, path.removeprefix("metadata.")))
        if path in ("metadata.labels", "metadata.annotations"):
            values = metadata.labels if path == "metadata.labels" else metadata.annotations
            return "\n".join(
                f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in sorted(values.items())
            )
        match = _FIELD.fullmatch(path)
        if match is None:
            return self.fields.get(path)
        values = metadata.labels if match.group(1) == "labels" else metadata.annotations
        return values.get(match.group(2), "")

    def read_resource(self, ref: ResourceFieldRef, spec: ContainerSpec) -> str | None:
        """Return a request or a limit of a container, in units of the divisor, rounded up."""
        kind, _, resource = ref.resource.partition(".")
        amounts = spec.resources.limits if kind == "limits" else spec.resources.requests
        amount: Quantity | None = amounts.get(resource)
        if amount is None and kind == "limits":
            if self.allocatable is None:
                return None
            amount = self.allocatable.get(resource)
        try:
            divisor = parse(ref.divisor) or parse("1")
            return str(-(-parse(amount or "0") // divisor))
        except QuantityError:
            return None
