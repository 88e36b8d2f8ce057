"""The value types of maps, which lightkube-models lacks: it calls them all `dict`."""

from __future__ import annotations

from typing import Final

_QUANTITIES: Final = frozenset(
    {
        "allocatable", "allocatedResources", "capacity", "consumedCapacity", "default", "defaultRequest",
        "hard", "limits", "max", "maxLimitRequestRatio", "min", "overhead", "podFixed", "requests", "used",
    }
)  # fmt: skip
"""Members that map resource names to quantities, in any type."""

_OTHERS: Final = {
    ("Secret", "data"): "bytes",
    ("ConfigMap", "binaryData"): "bytes",
    ("NodeAllocatableResourceClaimStatus", "resources"): "quantity",
    ("UserInfo", "extra"): "string[]",
    ("SubjectAccessReviewSpec", "extra"): "string[]",
    ("CertificateSigningRequestSpec", "extra"): "string[]",
    ("PodDisruptionBudgetStatus", "disruptedPods"): "time",
    ("Device", "attributes"): ".DeviceAttribute",
    ("Device", "capacity"): ".DeviceCapacity",
    ("Device", "nodeAllocatableResourceMappings"): ".NodeAllocatableResourceMapping",
    ("BasicDevice", "attributes"): ".DeviceAttribute",
    ("BasicDevice", "capacity"): ".DeviceCapacity",
    ("CounterSet", "counters"): ".Counter",
    ("DeviceCounterConsumption", "counters"): ".Counter",
    ("JSONSchemaProps", "definitions"): ".JSONSchemaProps",
    ("JSONSchemaProps", "dependencies"): "any",
    ("JSONSchemaProps", "patternProperties"): ".JSONSchemaProps",
    ("JSONSchemaProps", "properties"): ".JSONSchemaProps",
}
"""By type and member; a leading dot stands for the module of the type itself."""


def values_of_map(module: str, type_name: str, field: str) -> str:
    """Return the type of a map's values: the name of a scalar (`[]` for lists of them), or `module.Type`."""
    value_type = _OTHERS.get((type_name, field))
    if value_type is not None:
        return module + value_type if value_type.startswith(".") else value_type
    return "quantity" if field in _QUANTITIES else "string"
