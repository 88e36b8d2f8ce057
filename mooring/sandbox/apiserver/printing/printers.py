"""Which kind is printed how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mooring.sandbox.apiserver.printing import (
    cluster_columns,
    control_columns,
    device_columns,
    networking_columns,
    pod_columns,
    storage_columns,
    workload_columns,
)
from mooring.sandbox.apiserver.printing.columns import Printer

PRINTERS: Final[Mapping[str, Printer]] = {
    **pod_columns.PRINTERS,
    **workload_columns.PRINTERS,
    **cluster_columns.PRINTERS,
    **storage_columns.PRINTERS,
    **networking_columns.PRINTERS,
    **device_columns.PRINTERS,
    **control_columns.PRINTERS,
}
"""By the name of the table that objects are stored in."""
