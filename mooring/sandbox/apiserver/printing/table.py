"""Which kind is printed how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mooring.sandbox.apiserver.kinds.resource import Resource
from mooring.sandbox.apiserver.printing import cluster, control, devices, networking, pods, storage, workloads
from mooring.sandbox.apiserver.printing.columns import NAME, Column, Printer, at

DEFAULT: Final = Printer(
    NAME,
    Column(
        "Created At",
        at("metadata", "creationTimestamp"),
        "meta_v1.ObjectMeta.creationTimestamp",
        type="date",
    ),
)
"""Of kinds that nobody has thought of anything for; the time is left to clients."""

PRINTERS: Final[Mapping[str, Printer]] = {
    **pods.PRINTERS,
    **workloads.PRINTERS,
    **cluster.PRINTERS,
    **storage.PRINTERS,
    **networking.PRINTERS,
    **devices.PRINTERS,
    **control.PRINTERS,
}
"""By the name of the table that objects are stored in."""


def printer_of(resource: Resource) -> Printer:
    """The printer of a kind; custom ones bring their own."""
    return resource.printer or PRINTERS.get(resource.storage, DEFAULT)
