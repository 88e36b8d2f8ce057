"""Which kind is printed how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mooring.sandbox.apiserver.printing import cluster, control, devices, networking, pods, storage, workloads
from mooring.sandbox.apiserver.printing.columns import Printer

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
