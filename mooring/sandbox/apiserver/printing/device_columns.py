"""Devices: classes, claims and slices of dynamic resource allocation."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.printing.columns import AGE, NAME, Column, Printer, at, of

_SLICE: Final = "resource_v1.ResourceSliceSpec"


def _claim_state(claim: Tree) -> str:
    deleted = "deletionTimestamp" in claim["metadata"]
    states = ["deleted"] if deleted else []
    if dig(claim, "status", "allocation") is None:
        states += [] if deleted else ["pending"]
    else:
        states += ["allocated", "reserved"] if dig(claim, "status", "reservedFor") else ["allocated"]
    return ",".join(states)


PRINTERS: Final = {
    "deviceclasses.resource.k8s.io": Printer(NAME, AGE),
    "resourceclaims.resource.k8s.io": Printer(
        NAME,
        Column(
            "State",
            of(_claim_state),
            "A summary of the current state (allocated, pending, reserved, etc.).",
        ),
        AGE,
    ),
    "resourceclaimtemplates.resource.k8s.io": Printer(NAME, AGE),
    "resourceslices.resource.k8s.io": Printer(
        NAME,
        Column("Node", at("spec", "nodeName"), f"{_SLICE}.nodeName"),
        Column("Driver", at("spec", "driver"), f"{_SLICE}.driver"),
        Column("Pool", at("spec", "pool", "name"), "resource_v1.ResourcePool.name"),
        AGE,
    ),
}
